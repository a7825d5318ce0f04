import { useState } from "react";
import "./Avatar.css";

/** The first character that readers see of a name. Before Firefox 125 it may lack its accents. */
function initial(name: string): string {
  if (!("Segmenter" in Intl)) return Array.from(name)[0] ?? "";
  return Array.from(new Intl.Segmenter().segment(name))[0]?.segment ?? "";
}

/** The picture of a user; without one that loads, their initial, in one of six colors. */
export function Avatar({ name, url }: { name: string; url: string | null | undefined }) {
  const [failed, setFailed] = useState<string>();
  if (url && url !== failed) {
    return <img className="avatar" src={url} alt="" onError={() => { setFailed(url); }} />;
  }
  const sum = Array.from(name, (char) => char.charCodeAt(0)).reduce((sum, code) => sum + code, 0);
  return (
    <span className="avatar" data-color={sum % 6} aria-hidden="true">
      {initial(name).toUpperCase()}
    </span>
  );
}
