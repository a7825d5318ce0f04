import { useUploading } from "../pictures/upload";
import { hasPlaceholder } from "./pictureText";

/** Whether a post waits for its pictures: for an upload, or for one that has failed until its author cancels it. */
export function usePending(content: string) {
  const uploading = useUploading();
  return uploading || hasPlaceholder(content);
}
