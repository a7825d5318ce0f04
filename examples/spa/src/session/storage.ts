/**
 * The session storage of this tab. Where the browser blocks site data, or the storage is full, it keeps nothing: merely
 * to read window.sessionStorage is then an error.
 */
export const storage = {
  get: (key: string) => attempt(() => sessionStorage.getItem(key)) ?? null,
  set: (key: string, value: string) => { attempt(() => { sessionStorage.setItem(key, value); }); },
  remove: (key: string) => { attempt(() => { sessionStorage.removeItem(key); }); },
  keys: () => attempt(() => Object.keys(sessionStorage)) ?? [],
};

/** Whether the browser blocks site data. */
export const blocked = attempt(() => sessionStorage) === undefined;

function attempt<T>(action: () => T): T | undefined {
  try {
    return action();
  } catch {
    return undefined;
  }
}
