import { useEffect, useEffectEvent, useState } from "react";
import { announce } from "../ui/announce";
import { ErrorNote } from "../ui/ErrorNote";
import { uploadPicture } from "./upload";
import "./pictures.css";

interface Props {
  file: File;
  prepare: (file: File) => Promise<Blob>;
  onDone: (path: string) => void;
  onCancel: () => void;
}

/** Uploads a file while it is on the page, and shows how far it is. */
export function Upload({ file, prepare, onDone, onCancel }: Props) {
  const [attempt, setAttempt] = useState(0);
  const [progress, setProgress] = useState(0);
  const [error, setError] = useState<unknown>();
  const done = useEffectEvent((path: string) => {
    announce("The picture is uploaded.");
    onDone(path);
  });
  useEffect(() => {
    const controller = new AbortController();
    const { signal } = controller;
    uploadPicture(file, { prepare, signal, onProgress: setProgress }).then(
      (path) => { if (!signal.aborted) done(path); },
      (reason: unknown) => { if (!signal.aborted) setError(reason); },
    );
    return () => { controller.abort(); };
  }, [file, prepare, attempt]);

  function again() {
    setError(undefined);
    setProgress(0);
    setAttempt(attempt + 1);
  }
  return (
    <div className="upload">
      {error === undefined && <progress aria-label={`Uploading ${file.name}`} value={progress} />}
      <ErrorNote error={error} />
      <div className="actions">
        {error !== undefined && <button type="button" className="button" onClick={again}>Try again</button>}
        <button type="button" className="button" onClick={onCancel}>Cancel</button>
      </div>
    </div>
  );
}
