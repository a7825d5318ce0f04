import "./Skeleton.css";

/** Holds the place of a page that is loading. */
export function ArticleSkeleton() {
  return (
    <div className="skeleton article" aria-busy="true">
      <span className="visually-hidden">Loading…</span>
      <i className="heading" />
      <i className="byline" />
      <i /> <i /> <i /> <i className="short" />
      <i /> <i /> <i className="short" />
    </div>
  );
}

/** Holds the place of a list of posts that is loading. */
export function ListSkeleton({ count = 5 }: { count?: number }) {
  return (
    <div className="skeleton list" aria-busy="true">
      <span className="visually-hidden">Loading…</span>
      {Array.from({ length: count }, (_, i) => (
        <div key={i}>
          <i className="byline" />
          <i className="heading" />
          <i /> <i /> <i className="short" />
        </div>
      ))}
    </div>
  );
}
