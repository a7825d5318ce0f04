import { useEffect, useEffectEvent, useRef, useState, type SubmitEvent } from "react";
import { Link, useLocation } from "wouter";
import { pathOfSearch, type Search } from "./address";

const pause = 250; // milliseconds without a key after which it searches

/** The search box, in what it searches and in which order. What one types becomes the address of the page. */
export function SearchBox({ search }: { search: Search }) {
  const [, navigate] = useLocation();
  const box = useRef<HTMLInputElement>(null);
  const [typed, setTyped] = useState<string>(); // which the address does not have yet, or with fewer spaces
  const text = typed ?? search.q ?? "";

  useEffect(() => {
    if (!box.current?.value) box.current?.focus(); // after the heading
  }, []);

  function go() {
    if (text.trim() === (search.q ?? "").trim()) return;
    setTyped(undefined);
    navigate(pathOfSearch({ ...search, q: text }), { replace: true });
  }
  const onPause = useEffectEvent(go);
  useEffect(() => {
    if (typed === undefined) return;
    const timer = setTimeout(onPause, pause);
    return () => { clearTimeout(timer); };
  }, [typed]);

  function submit(event: SubmitEvent) {
    event.preventDefault();
    go();
  }
  const ordered = (name: string, order?: "newest") => {
    const current = (search.order === "newest") === (order === "newest");
    return (
      <Link href={pathOfSearch({ ...search, q: text, order })} replace aria-current={current ? "true" : undefined}>
        {name}
      </Link>
    );
  };
  return (
    <form role="search" action="/search" className="search-box" onSubmit={submit}>
      <label htmlFor="search" className="visually-hidden">Search the posts</label>
      <input
        ref={box}
        id="search"
        type="search"
        name="q"
        dir="auto"
        placeholder="Search the posts"
        autoCapitalize="none"
        autoComplete="off"
        enterKeyHint="search"
        maxLength={1000}
        value={text}
        aria-describedby="search-error"
        onChange={(event) => { setTyped(event.target.value); }}
      />
      {(search.tag || search.author) && (
        <p className="hint">
          Only posts{search.tag && <> with the tag <bdi>#{search.tag}</bdi></>}
          {search.author && " of one author"} ·{" "}
          <Link href={pathOfSearch({ ...search, q: text, tag: undefined, author: undefined })} replace>
            Search all posts
          </Link>
        </p>
      )}
      {search.q && <p className="search-order">{ordered("Best match")}{ordered("Newest", "newest")}</p>}
    </form>
  );
}
