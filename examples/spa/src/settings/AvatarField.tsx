import { useState } from "react";
import { square } from "../pictures/canvas";
import { PictureButton } from "../pictures/PictureButton";
import { addressOf, shownAt } from "../pictures/address";
import { Upload } from "../pictures/Upload";
import { usePictureDrop } from "../pictures/usePictureDrop";
import { Avatar } from "../ui/Avatar";

interface Props {
  name: string;
  url: string;
  onChange: (url: string) => void;
}

/** The viewer's picture, and how to upload another. */
export function AvatarField({ name, url, onChange }: Props) {
  const [file, setFile] = useState<File>(); // while it is being uploaded
  const cancel = () => { setFile(undefined); };
  const pick = ([file]: File[]) => { setFile(file); };
  const { over, handlers } = usePictureDrop(pick);

  function done(url: string) {
    setFile(undefined);
    onChange(url);
  }
  return (
    <div className="avatar-field" data-over={over} {...handlers}>
      <Avatar name={name} url={file ? addressOf(file) : shownAt(url)} />
      {file
        ? <Upload key={addressOf(file)} file={file} prepare={square} onDone={done} onCancel={cancel} />
        : <PictureButton onPick={pick}>Upload a picture</PictureButton>}
    </div>
  );
}
