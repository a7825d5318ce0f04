import { graphql, useLazyLoadQuery } from "react-relay/hooks";
import { Redirect } from "wouter";
import type { PostPageQuery } from "../__generated__/PostPageQuery.graphql";
import { NotFoundPage } from "../app/NotFoundPage";
import { useFetchPolicy } from "../app/navigation";
import { Post } from "./Post";

/** A post with its comments. The slug of a former title redirects to the present one. */
export default function PostPage({ slug }: { slug: string }) {
  const { postBySlug: post } = useLazyLoadQuery<PostPageQuery>(
    graphql`
      query PostPageQuery($slug: String!) {
        postBySlug(slug: $slug) {
          id
          slug
          isDraft
          ...Post_post
        }
      }
    `,
    { slug },
    { fetchPolicy: useFetchPolicy() },
  );
  if (!post) return <NotFoundPage />;
  if (post.isDraft) return <Redirect to={`/drafts/${post.id}`} replace />;
  if (post.slug !== slug) return <Redirect to={`/posts/${post.slug}`} replace />;
  return <Post post={post} />;
}
