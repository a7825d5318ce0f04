import { tagsOf } from "../tag/tags";
import type { PostFields } from "./PostForm";

/** What is sent of a form. The gateway trims these texts, too. */
export const postInput = ({ title, content, tags, seoTitle, seoDescription, canonicalUrl }: PostFields) => ({
  title: title.trim(),
  content,
  tags: tagsOf(tags),
  seoTitle: seoTitle.trim(),
  seoDescription: seoDescription.trim(),
  canonicalUrl: canonicalUrl.trim(),
});
