import { useEffect, useEffectEvent, useRef, useState } from "react";
import { PictureButton } from "../pictures/PictureButton";
import { usePictureDrop } from "../pictures/usePictureDrop";
import type { Change } from "../ui/useDraft";
import { hasPlaceholder, inserted, placeholderOf, withoutPlaceholders } from "./pictureText";
import { Preview } from "./Preview";
import { TextPicture } from "./TextPicture";

interface Fields {
  content: string;
}

interface Props {
  text: string;
  onChange: (change: Change<Fields>) => void;
  busy: boolean;
  invalid: boolean;
}

interface Picture {
  n: number;
  file: File;
}

let count = 0; // pictures of this page

/** The text of a post, with its pictures and its preview. */
export function ContentField({ text, onChange, busy, invalid }: Props) {
  const [pictures, setPictures] = useState<readonly Picture[]>([]);
  const area = useRef<HTMLTextAreaElement>(null);
  const touched = useRef(false); // the author has been in the text, so that it has a cursor
  const { over, handlers } = usePictureDrop(add);

  const clean = useEffectEvent(() => {
    if (hasPlaceholder(text)) onChange({ content: withoutPlaceholders(text) });
  });
  useEffect(() => { clean(); }, []);

  function add(files: File[]) {
    if (busy) return;
    const added = files.map((file) => ({ n: ++count, file }));
    setPictures([...pictures, ...added]);
    onChange(({ content }) => {
      const position = (touched.current ? area.current?.selectionEnd : undefined) ?? content.length;
      return { content: added.reduceRight((text, { n }) => inserted(text, position, placeholderOf(n)), content) };
    });
  }
  function close(picture: Picture, end?: number) {
    setPictures((pictures) => pictures.filter(({ n }) => n !== picture.n));
    area.current?.focus();
    if (end !== undefined) area.current?.setSelectionRange(end, end);
  }
  return (
    <>
      <div className="beside" data-over={over} {...handlers}>
        <div>
          <label htmlFor="content">Text</label>
          <textarea
            ref={area}
            id="content"
            className="content"
            dir="auto"
            required
            maxLength={100_000}
            readOnly={busy}
            value={text}
            aria-invalid={invalid}
            aria-describedby="content-hint form-error"
            onChange={(event) => { onChange({ content: event.target.value }); }}
            onFocus={() => { touched.current = true; }}
          />
          {pictures.map((picture) => (
            <TextPicture
              key={picture.n}
              {...picture}
              text={text}
              onChange={onChange}
              onClose={(end) => { close(picture, end); }}
            />
          ))}
          <div className="actions">
            <PictureButton multiple disabled={busy} onPick={add}>Add a picture</PictureButton>
          </div>
        </div>
        <Preview text={text} />
      </div>
      <p id="content-hint" className="hint">
        Markdown: an empty line begins a paragraph, <code># </code> a heading, <code>- </code> a list;{" "}
        <code>**bold**</code>, <code>[link](https://…)</code>. Pictures can also be dropped or pasted. What you write is
        kept in this tab as you type.
      </p>
    </>
  );
}
