import { graphql, useFragment } from "react-relay/hooks";
import type { Snippet_snippet$key } from "../__generated__/Snippet_snippet.graphql";
import { partsOf } from "./parts";

/** The part of a post that matches a search, with the matches marked. It is plain text. */
export function Snippet({ snippet }: { snippet: Snippet_snippet$key }) {
  const { text, matches } = useFragment(
    graphql`
      fragment Snippet_snippet on Snippet {
        text
        matches {
          start
          end
        }
      }
    `,
    snippet,
  );
  return partsOf(text, matches).map(({ text, match }, i) => (match ? <mark key={i}>{text}</mark> : text));
}
