import { useState, type SubmitEvent } from "react";
import { signIn } from "../session/session";
import { Avatar } from "../ui/Avatar";

const users = ["ada", "grace", "alan", "barbara"];

/** Signs in with the gateway's demo tokens, which work on loopback only. */
export function DemoSignIn({ page }: { page: string }) {
  const [name, setName] = useState("");
  const [moderator, setModerator] = useState(false);
  const signInAs = (name: string) => { signIn(`${moderator ? "demo-moderator" : "demo"}:${name}`, page); };

  function submit(event: SubmitEvent) {
    event.preventDefault();
    signInAs(name);
  }
  return (
    <>
      <p>The gateway runs with demo users, without passwords. Whom would you like to be?</p>
      <ul className="demo-users">
        {users.map((user) => (
          <li key={user}>
            <button type="button" className="button" onClick={() => { signInAs(user); }}>
              <Avatar name={user} url={`/avatars/${user}.svg`} /> {user}
            </button>
          </li>
        ))}
      </ul>
      <form onSubmit={submit}>
        <label htmlFor="name">Or anyone else: a new name is a new user</label>
        <div className="actions">
          <input
            id="name"
            required
            maxLength={100}
            pattern="[A-Za-z0-9_.@\-]+"
            autoCapitalize="none"
            autoComplete="off"
            spellCheck={false}
            value={name}
            onChange={(event) => { setName(event.target.value); }}
          />
          <button type="submit" className="button primary">Sign in</button>
        </div>
      </form>
      <label className="check">
        <input type="checkbox" checked={moderator} onChange={(event) => { setModerator(event.target.checked); }} />
        As a moderator, who can delete what others wrote
      </label>
    </>
  );
}
