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
      if (files.length === 0 || types.includes("text/plain")) return; // a word processor's text has a picture of it
      event.preventDefault();
      take([...files]);
    },
  };
  return { over, handlers };
}
