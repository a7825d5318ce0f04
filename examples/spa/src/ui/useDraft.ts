import { useRef, useState } from "react";
import { storage } from "../session/storage";

/** What is being written, and the idempotency key of the request that sends it once it has been sent. */
export type Draft<Fields> = Fields & { key?: string };

/** Fields with new values, or what makes them of the latest. */
export type Change<Fields> = Partial<Fields> | ((latest: Fields) => Partial<Fields>);

/**
 * Keeps what is being written in session storage as one types, so that neither a reload nor a lost server loses it.
 * A key belongs to what was sent with it: change takes it away, withKey adds it.
 */
export function useDraft<Fields extends object>(name: string, empty: Fields) {
  const storageKey = `byline.draft.${name}`;
  const [draft, setDraft] = useState<Draft<Fields>>(() => ({ ...empty, ...stored(storageKey) }));

  const latest = useRef(draft); // also for callbacks of an earlier render

  function keep(next: Draft<Fields>) {
    latest.current = next;
    setDraft(next);
    storage.set(storageKey, JSON.stringify(next));
  }
  return {
    draft,
    change: (change: Change<Fields>) => {
      const fields = typeof change === "function" ? change(latest.current) : change;
      keep({ ...latest.current, ...fields, key: undefined });
    },
    /** Returns the draft with its key, a new one unless it has been sent before. */
    withKey: () => {
      const keyed = { ...latest.current, key: latest.current.key ?? crypto.randomUUID() };
      keep(keyed);
      return keyed;
    },
    discard: () => {
      storage.remove(storageKey);
      latest.current = empty;
      setDraft(empty);
    },
  };
}

const stored = (storageKey: string) => JSON.parse(storage.get(storageKey) ?? "{}") as object;
