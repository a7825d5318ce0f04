import { useRef } from "react";
import { types } from "./canvas";

interface Props {
  onPick: (files: File[]) => void;
  disabled?: boolean;
  multiple?: boolean;
  children: string;
}

/** Has the viewer choose pictures. */
export function PictureButton({ onPick, disabled, multiple, children }: Props) {
  const input = useRef<HTMLInputElement>(null);
  return (
    <>
      <input
        ref={input}
        type="file"
        accept={types.join()}
        multiple={multiple}
        onChange={({ target }) => {
          const files = [...(target.files ?? [])];
          target.value = ""; // so that the same file can be chosen again
          if (files.length > 0) onPick(files);
        }}
      />
      <button type="button" className="button" disabled={disabled} onClick={() => input.current?.click()}>
        {children}
      </button>
    </>
  );
}
