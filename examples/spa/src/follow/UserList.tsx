import type { ReactNode } from "react";
import type { UserItem_user$key } from "../__generated__/UserItem_user.graphql";
import { LoadMore } from "../ui/LoadMore";
import { UserItem } from "./UserItem";

interface Props {
  users: readonly (UserItem_user$key & { readonly id: string })[];
  pagination: { hasNext: boolean; isLoadingNext: boolean; loadNext: (count: number) => unknown };
  empty: ReactNode; // what a list without users says
}

/** The users of a connection, which loads more as one scrolls. */
export function UserList({ users, pagination: { hasNext, isLoadingNext, loadNext }, empty }: Props) {
  if (!users.length && !hasNext) return <div className="end">{empty}</div>;
  return (
    <>
      <ul className="user-list">
        {users.map((user) => <UserItem key={user.id} user={user} />)}
      </ul>
      {hasNext && <LoadMore loading={isLoadingNext} onLoad={() => { loadNext(20); }}>More people</LoadMore>}
    </>
  );
}
