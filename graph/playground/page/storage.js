// Where the browser blocks site data, even to name localStorage is an error. The page and its editors then have a
// localStorage that keeps nothing beyond the page.
try {
  localStorage.getItem("");
} catch {
  const items = new Map();
  const value = {
    getItem: (key) => items.get(String(key)) ?? null,
    setItem: (key, item) => void items.set(String(key), String(item)),
    removeItem: (key) => void items.delete(String(key)),
    clear: () => items.clear(),
    key: (n) => [...items.keys()][n] ?? null,
    get length() { return items.size; },
  };
  Object.defineProperty(window, "localStorage", { configurable: true, value });
}
