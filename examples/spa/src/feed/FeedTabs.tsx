import { Link } from "wouter";
import { usePathname } from "wouter/use-browser-location";
import { signedIn } from "../session/session";
import { ListSkeleton } from "../ui/Skeleton";

/** The two front pages of signed-in readers: the posts of those whom they follow, and all posts. */
export function FeedTabs() {
  const home = usePathname() === "/home";
  if (!signedIn) return null;
  return (
    <nav className="tabs" aria-label="Posts">
      <Link href="/home" aria-current={home ? "page" : undefined}>Home</Link>
      <Link href="/" aria-current={home ? undefined : "page"}>All</Link>
    </nav>
  );
}

/** Holds the place of one of the two while it loads. */
export function FeedSkeleton() {
  return (
    <>
      <FeedTabs />
      <ListSkeleton />
    </>
  );
}
