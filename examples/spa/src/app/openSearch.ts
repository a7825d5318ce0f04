import { navigate } from "wouter/use-browser-location";

/** Goes to the search box: if this page has none, to the page that does. */
export function openSearch(event: { preventDefault: () => void }) {
  event.preventDefault();
  const box = document.querySelector<HTMLInputElement>("[type=search]");
  if (!box) navigate("/search");
  box?.focus();
  box?.select();
}

/** Has the key / open the search, except where one types. */
export function openSearchByKey() {
  addEventListener("keydown", (event) => {
    const { key, altKey, ctrlKey, metaKey, target } = event;
    if (key !== "/" || altKey || ctrlKey || metaKey) return;
    if (!(target as Element).closest("input, textarea, [contenteditable]")) openSearch(event);
  });
}
