import { uploadOf } from "../pictures/address";
import { tagsOf } from "../tag/tags";
import type { PostFields } from "./PostForm";

/** What is sent of a form. The gateway trims these texts, too. */
export const postInput = ({ title, content, tags, seoTitle, seoDescription, canonicalUrl, ...cover }: PostFields) => ({
  title: title.trim(),
  content,
  tags: tagsOf(tags),
  seoTitle: seoTitle.trim(),
  seoDescription: seoDescription.trim(),
  canonicalUrl: canonicalUrl.trim(),
  coverImage: coverInput(cover),
});

function coverInput({ coverUrl, coverAlt }: Pick<PostFields, "coverUrl" | "coverAlt">) {
  if (!coverUrl) return null;
  const upload = uploadOf(coverUrl);
  return { ...(upload ? { upload } : { url: coverUrl }), alt: coverAlt.trim() };
}
