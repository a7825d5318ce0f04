import { useEffect, useState } from "react";
import { fetchQuery, graphql, useRelayEnvironment } from "react-relay/hooks";
import type { Subscription } from "relay-runtime";
import type { PreviewQuery } from "../__generated__/PreviewQuery.graphql";
import { messageOf } from "../network/errors";
import { shownAt } from "../pictures/address";
import { Html } from "../ui/Html";

const query = graphql`
  query PreviewQuery($text: String!) {
    renderMarkdown(text: $text)
  }
`;

const networkCacheConfig = { metadata: { post: true } }; // what one writes is not for URLs
const rest = 600; // milliseconds without a key, after which the text is rendered

/** What readers will see, a moment after the author has stopped typing. */
export function Preview({ text }: { text: string }) {
  const environment = useRelayEnvironment();
  const [html, setHtml] = useState("");
  const [error, setError] = useState<unknown>();
  const empty = text.trim() === "";

  useEffect(() => {
    if (empty) return;
    let request: Subscription | undefined;
    const timer = setTimeout(() => {
      request = fetchQuery<PreviewQuery>(environment, query, { text }, { networkCacheConfig }).subscribe({
        next: ({ renderMarkdown }) => {
          setHtml(renderMarkdown ?? "");
          setError(undefined);
        },
        error: setError,
      });
    }, rest);
    return () => {
      clearTimeout(timer);
      request?.unsubscribe();
    };
  }, [environment, empty, text]);

  return (
    <section className="preview" aria-label="Preview">
      {empty && <p className="hint">What you write appears here as readers will see it.</p>}
      {error !== undefined && <p className="hint">{messageOf(error)}</p>}
      {!empty && <Html html={withLocalPictures(html)} className="content" />}
    </section>
  );
}

/** The HTML with the pictures that this page has uploaded, which the gateway shows only once the text is saved. */
const withLocalPictures = (html: string) =>
  html.replaceAll(/(<img src=")([^"]+)/g, (_, start: string, path: string) => start + shownAt(path));
