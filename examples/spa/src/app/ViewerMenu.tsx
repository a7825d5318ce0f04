import { useRef } from "react";
import { Link } from "wouter";
import { signedIn, signOut } from "../session/session";
import { useReturn } from "../session/useReturn";
import { useViewer } from "../session/useViewer";
import { Avatar } from "../ui/Avatar";

/** The end of the header: who is signed in, and what they can do. */
export function ViewerMenu() {
  const viewer = useViewer();
  const to = useReturn();
  const menu = useRef<HTMLDivElement>(null);
  const close = () => menu.current?.hidePopover();
  if (!signedIn) return <Link href={`/signin${to}`}>Sign in</Link>;
  if (!viewer) {
    return (
      <>
        <Link href={`/welcome${to}`}>Choose a name</Link>
        <button type="button" className="link" onClick={signOut}>Sign out</button>
      </>
    );
  }
  return (
    <>
      <Link href="/write">Write</Link>
      <button type="button" className="viewer" popoverTarget="viewer-menu" aria-label={`${viewer.displayName}, menu`}>
        <Avatar name={viewer.displayName} url={viewer.avatarUrl} />
      </button>
      <div id="viewer-menu" ref={menu} popover="auto">
        <Link href={`/authors/${viewer.username}`} onClick={close}>{viewer.displayName}</Link>
        <Link href="/drafts" onClick={close}>Drafts</Link>
        <Link href="/liked" onClick={close}>Liked posts</Link>
        <Link href="/bookmarks" onClick={close}>Bookmarks</Link>
        <Link href="/settings" onClick={close}>Settings</Link>
        <button type="button" onClick={signOut}>Sign out</button>
      </div>
    </>
  );
}
