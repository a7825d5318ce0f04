import { useEffect, useEffectEvent, useRef } from "react";

interface Props {
  loading: boolean;
  onLoad: () => void;
  children: string;
}

/** The end of a list that has more: loads it when it comes near, or by its button. */
export function LoadMore({ loading, onLoad, children }: Props) {
  const button = useRef<HTMLButtonElement>(null);
  const load = () => {
    if (!loading) onLoad();
  };
  const near = useEffectEvent((entries: IntersectionObserverEntry[]) => {
    if (entries.some((entry) => entry.isIntersecting)) load();
  });
  useEffect(() => {
    if (!button.current) return;
    const observer = new IntersectionObserver((entries) => { near(entries); }, { rootMargin: "600px" });
    observer.observe(button.current);
    return () => {
      observer.disconnect();
    };
  }, [loading]);
  return (
    <button ref={button} type="button" className="button load-more" aria-disabled={loading} onClick={load}>
      {loading ? "Loading…" : children}
    </button>
  );
}
