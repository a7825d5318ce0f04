import { graphql, useLazyLoadQuery } from "react-relay/hooks";
import type { PostPageQuery } from "../__generated__/PostPageQuery.graphql";
import { NotFoundPage } from "../app/NotFoundPage";
import { useFetchPolicy } from "../app/navigation";
import { Post } from "./Post";

/** A post with its comments. */
export default function PostPage({ id }: { id: string }) {
  const { post } = useLazyLoadQuery<PostPageQuery>(
    graphql`
      query PostPageQuery($id: ID!) {
        post(id: $id) {
          ...Post_post
        }
      }
    `,
    { id },
    { fetchPolicy: useFetchPolicy() },
  );
  return post ? <Post post={post} /> : <NotFoundPage />;
}
