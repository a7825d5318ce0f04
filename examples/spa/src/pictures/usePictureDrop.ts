import { useState, type ClipboardEvent, type DragEvent } from "react";

/** Handlers for an element that takes the files that are dropped on it or pasted into it; whether some are over it. */
export function usePictureDrop(take: (files: File[]) => void) {
  const [over, setOver] = useState(false);
  const handlers = {
    onDragOver: (event: DragEvent) => {
      if (!event.dataTransfer.types.includes("Files")) return;
      event.preventDefault();
      setOver(true);
    },
    onDragLeave: (event: DragEvent) => {
      if (!event.currentTarget.contains(event.relatedTarget as Node | null)) setOver(false);
    },
    onDrop: (event: DragEvent) => {
      setOver(false);
      if (event.dataTransfer.files.length === 0) return;
      event.preventDefault();
      take([...event.dataTransfer.files]);
    },
    onPaste: (event: ClipboardEvent) => {
      const { files, types } = event.clipboardData;
      // A word processor's text comes as these three: with a picture of it.
      if (files.length === 0 || (types.includes("text/plain") && types.includes("text/html"))) return;
      event.preventDefault();
      take([...files]);
    },
  };
  return { over, handlers };
}
