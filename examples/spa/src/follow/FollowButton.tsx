import { graphql, useFragment, useMutation } from "react-relay/hooks";
import type { RecordSourceProxy } from "relay-runtime";
import type { FollowButton_user$key } from "../__generated__/FollowButton_user.graphql";
import type { FollowButtonFollowMutation } from "../__generated__/FollowButtonFollowMutation.graphql";
import type { FollowButtonUnfollowMutation } from "../__generated__/FollowButtonUnfollowMutation.graphql";
import { useAction } from "../session/useAction";
import { useViewer } from "../session/useViewer";
import { ErrorNote } from "../ui/ErrorNote";
import "./follow.css";

const followMutation = graphql`
  mutation FollowButtonFollowMutation($input: FollowUserInput!) {
    followUser(input: $input) {
      user {
        id
        followerCount
        viewerFollows
      }
    }
  }
`;

const unfollowMutation = graphql`
  mutation FollowButtonUnfollowMutation($input: UnfollowUserInput!) {
    unfollowUser(input: $input) {
      user {
        id
        followerCount
        viewerFollows
      }
    }
  }
`;

/** Follows a user, or ends it; the count, where it is shown, changes at once, and back if the gateway refuses. */
export function FollowButton({ user }: { user: FollowButton_user$key }) {
  const { id, username, displayName, viewerFollows } = useFragment(
    graphql`
      fragment FollowButton_user on User
      @argumentDefinitions(signedIn: { type: "Boolean!", provider: "../session/signedIn.relayprovider" }) {
        id
        username
        displayName
        viewerFollows @include(if: $signedIn)
      }
    `,
    user,
  );
  const viewer = useViewer();
  const follow = useAction(useMutation<FollowButtonFollowMutation>(followMutation));
  const unfollow = useAction(useMutation<FollowButtonUnfollowMutation>(unfollowMutation));
  if (!username || viewer?.id === id) return null;

  function toggle() {
    if (follow.busy || unfollow.busy) return;
    const config = {
      variables: { input: { id } },
      optimisticUpdater: (store: RecordSourceProxy) => {
        const author = store.get<{ viewerFollows: boolean; followerCount?: number | null }>(id);
        author?.setValue(!viewerFollows, "viewerFollows");
        const count = author?.getValue("followerCount"); // not every page selects it
        if (typeof count === "number") author?.setValue(count + (viewerFollows ? -1 : 1), "followerCount");
      },
    };
    if (viewerFollows) unfollow.run(config);
    else follow.run(config);
  }

  return (
    <div className="follow">
      <button type="button" className="button" aria-pressed={viewerFollows ?? false} onClick={toggle}>
        {viewerFollows ? "Following" : "Follow"}
        <bdi className="visually-hidden">{displayName}</bdi>
      </button>
      <ErrorNote error={follow.error ?? unfollow.error} />
    </div>
  );
}
