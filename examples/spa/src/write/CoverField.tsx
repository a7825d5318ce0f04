import { useState } from "react";
import { fitted } from "../pictures/canvas";
import { PictureButton } from "../pictures/PictureButton";
import { addressOf, shownAt } from "../pictures/address";
import { Upload } from "../pictures/Upload";
import { usePictureDrop } from "../pictures/usePictureDrop";
import type { PostFields } from "./PostForm";

interface Props {
  fields: PostFields;
  onChange: (fields: Partial<PostFields>) => void;
  busy: boolean;
  invalid: boolean;
}

/** The cover of a post: uploads, describes and removes it. */
export function CoverField({ fields: { coverUrl, coverAlt }, onChange, busy, invalid }: Props) {
  const [file, setFile] = useState<File>(); // while it is being uploaded
  const [missing, setMissing] = useState<string>(); // the address of a cover that does not load
  const { over, handlers } = usePictureDrop(([file]) => { if (!busy) setFile(file); });

  function done(path: string) {
    onChange({ coverUrl: path });
    setFile(undefined);
  }
  const pick = ([file]: File[]) => { setFile(file); };
  if (!file && !coverUrl) {
    return (
      <div role="group" aria-label="Cover" className="cover-field empty" data-over={over} {...handlers}>
        <PictureButton disabled={busy} onPick={pick}>Add a cover</PictureButton>
        <span className="hint">or drop a picture here</span>
      </div>
    );
  }
  const src = file ? addressOf(file) : shownAt(coverUrl);
  return (
    <div role="group" aria-label="Cover" className="cover-field" data-over={over} data-invalid={invalid} {...handlers}>
      {src === missing
        ? <p className="cover hint">{!file && "The picture appears here when the post is saved."}</p>
        : <img className="cover" src={src} alt={coverAlt} onError={() => { setMissing(src); }} />}
      <div>
        <label htmlFor="coverAlt">What the picture shows</label>
        <input
          id="coverAlt"
          dir="auto"
          autoComplete="off"
          maxLength={300}
          readOnly={busy}
          value={coverAlt}
          aria-describedby="coverAlt-hint form-error"
          onChange={(event) => { onChange({ coverAlt: event.target.value }); }}
        />
        <p id="coverAlt-hint" className="hint">For those who do not see it.</p>
        {file ? (
          <Upload
            key={addressOf(file)}
            file={file}
            prepare={fitted}
            onDone={done}
            onCancel={() => { setFile(undefined); }}
          />
        ) : (
          <div className="actions">
            <PictureButton disabled={busy} onPick={pick}>Replace</PictureButton>
            <button
              type="button"
              className="button"
              disabled={busy}
              onClick={() => { onChange({ coverUrl: "", coverAlt: "" }); }}
            >
              Remove
            </button>
          </div>
        )}
      </div>
    </div>
  );
}
