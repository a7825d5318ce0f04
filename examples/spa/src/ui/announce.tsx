import { useSyncExternalStore } from "react";

let message = "";
const listeners = new Set<() => void>();

/** Has screen readers say something that others see. */
export function announce(text: string) {
  message = text === message ? `${text}\u00a0` : text; // the same text again is said again
  for (const listener of listeners) listener();
}

const subscribe = (listener: () => void) => {
  listeners.add(listener);
  return () => listeners.delete(listener);
};

export function Announcer() {
  const text = useSyncExternalStore(subscribe, () => message);
  return (
    <div role="status" className="visually-hidden">
      {text}
    </div>
  );
}
