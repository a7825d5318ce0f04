import { useEffect, useRef, useState, type KeyboardEvent } from "react";
import { fitted } from "../pictures/canvas";
import { addressOf } from "../pictures/address";
import { Upload } from "../pictures/Upload";
import type { Change } from "../ui/useDraft";
import { changed, endOf, placeholderOf, removed } from "./pictureText";

interface Fields {
  content: string;
}

interface Props {
  n: number;
  file: File;
  text: string;
  onChange: (change: Change<Fields>) => void;
  onClose: (end?: number) => void; // end: of the picture in the text
}

/** Uploads a picture into the text, and asks what it shows. */
export function TextPicture({ n, file, text, onChange, onClose }: Props) {
  const [path, setPath] = useState<string>();
  const [alt, setAlt] = useState("");
  const field = useRef<HTMLInputElement>(null);
  useEffect(() => field.current?.focus(), []);
  const address = path ?? placeholderOf(n);

  function describe(alt: string) {
    setAlt(alt);
    onChange(({ content }) => ({ content: changed(content, address, alt || (path ? "" : "Uploading…")) }));
  }
  function done(path: string) {
    setPath(path);
    onChange(({ content }) => ({ content: changed(content, address, alt, path) }));
  }
  function cancel() {
    onChange(({ content }) => ({ content: removed(content, address) }));
    onClose();
  }
  const close = () => { onClose(endOf(text, address)); };
  function onKeyDown(event: KeyboardEvent) {
    if (event.key !== "Enter") return;
    event.preventDefault(); // does not publish
    if (path) close();
  }
  const id = `picture-${n}`;
  return (
    <div role="group" aria-label={`Picture ${n}`} className="text-picture">
      <img src={addressOf(file)} alt="" />
      <div>
        <label htmlFor={id}>What the picture shows</label>
        <input
          ref={field}
          id={id}
          dir="auto"
          autoComplete="off"
          maxLength={300}
          value={alt}
          aria-describedby={`${id}-hint`}
          onChange={(event) => { describe(event.target.value); }}
          onKeyDown={onKeyDown}
        />
        <p id={`${id}-hint`} className="hint">For those who do not see it.</p>
        {path ? (
          <div className="actions">
            <button type="button" className="button" onClick={close}>Done</button>
          </div>
        ) : (
          <Upload file={file} prepare={fitted} onDone={done} onCancel={cancel} />
        )}
      </div>
    </div>
  );
}
