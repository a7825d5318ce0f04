interface Props {
  value: string;
  onChange: (username: string) => void;
  invalid: boolean;
}

/** The field for a username, with the rules that the gateway has. */
export function UsernameField({ value, onChange, invalid }: Props) {
  return (
    <>
      <label htmlFor="username">Username</label>
      <input
        id="username"
        autoComplete="username"
        autoCapitalize="none"
        spellCheck={false}
        required
        minLength={3}
        maxLength={30}
        pattern="[A-Za-z0-9_\-]+"
        value={value}
        aria-invalid={invalid}
        aria-describedby="username-hint"
        onChange={(event) => { onChange(event.target.value); }}
      />
      <p id="username-hint" className="hint">3 to 30 letters from A to Z, digits, hyphens and underscores.</p>
    </>
  );
}
