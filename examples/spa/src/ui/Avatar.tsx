import "./Avatar.css";

/** The author's initial, in one of six colors. */
export function Avatar({ username }: { username: string }) {
  const sum = Array.from(username, (char) => char.charCodeAt(0)).reduce((sum, code) => sum + code, 0);
  return (
    <span className="avatar" data-color={sum % 6} aria-hidden="true">
      {username.charAt(0).toUpperCase()}
    </span>
  );
}
