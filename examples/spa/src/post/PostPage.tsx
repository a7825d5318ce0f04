import { graphql, usePreloadedQuery, type PreloadedQuery } from "react-relay/hooks";
import { Redirect } from "wouter";
import type { PostPageQuery } from "../__generated__/PostPageQuery.graphql";
import { NotFoundPage } from "../app/NotFoundPage";
import { Post } from "./Post";

/** A post with its comments. The slug of a former title redirects to the present one. */
export default function PostPage({ query }: { query: PreloadedQuery<PostPageQuery> }) {
  const { postBySlug: post } = usePreloadedQuery<PostPageQuery>(
    graphql`
      query PostPageQuery($slug: String!) @preloadable {
        postBySlug(slug: $slug) {
          id
          slug
          isDraft
          ...Post_post
        }
      }
    `,
    query,
  );
  if (!post) return <NotFoundPage />;
  if (post.isDraft) return <Redirect to={`/drafts/${post.id}`} replace />;
  if (post.slug !== query.variables.slug) return <Redirect to={`/posts/${post.slug}`} replace />;
  return <Post post={post} />;
}
