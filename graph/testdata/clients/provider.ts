// What docs/auth.md leaves to the application; clients.test.mjs sets globalThis.provider.
declare global {
  var provider: () => Promise<string>;
}

export const fetchToken = (): Promise<string> => globalThis.provider();
