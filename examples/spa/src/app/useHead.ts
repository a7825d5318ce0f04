import { useEffect } from "react";

/**
 * Sets the description and the canonical URL in the head, as the gateway does in the pages that it renders. Without a
 * canonical URL, that of the gateway stays if it is of this page.
 */
export function useHead(description: string, canonical: string | null | undefined) {
  useEffect(() => {
    const { head } = document;
    const meta = head.querySelector<HTMLMetaElement>("meta[name=description]") ?? document.createElement("meta");
    meta.name = "description";
    meta.content = description;
    head.append(meta);
    const link = head.querySelector<HTMLLinkElement>("link[rel=canonical]") ?? document.createElement("link");
    if (canonical) {
      link.rel = "canonical";
      link.href = canonical;
      head.append(link);
    } else if (!link.href.endsWith(location.pathname)) link.remove();
    return () => {
      meta.remove();
      link.remove();
    };
  }, [description, canonical]);
}
