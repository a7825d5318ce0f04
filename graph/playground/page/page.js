// Starts GraphiQL, or the embedded GraphQL Playground if the CDN cannot be reached, below a header with what
// both lack: the examples, the viewer, and the cost of the last operation.
//
// The module of an editor exports start(root, prepared, fresh), which opens the stored tabs, or only the examples
// if fresh is true. It returns {tabs, add}: tabs() lists the open tabs as {name, active, select}, and add(query)
// opens one.

import "./storage.js";

const embedded = "embedded"; // the search parameter for those who do not want to wait for the CDN

const prepared = await (await fetch("/playground/prepared.json")).json();
const { examples, cdn, version } = prepared;
const root = document.getElementById("root");

// Keep the tabs across a reload, unless the examples have changed.
const stored = localStorage.getItem("byline-playground");
localStorage.setItem("byline-playground", version);
const editor = await load(stored !== version);
document.getElementById("loading")?.remove();

// load starts GraphiQL, or else the embedded playground.
async function load(fresh) {
  if (cdn && !new URLSearchParams(location.search).has(embedded)) {
    try {
      const graphiql = await import("./graphiql.js");
      await graphiql.reach(cdn);
      document.getElementById("loading").innerHTML =
        `Loading GraphiQL&nbsp;… or use the <a href="?${embedded}">embedded playground</a>.`;
      return await graphiql.start(root, prepared, fresh);
    } catch (error) {
      console.info(`GraphiQL cannot be loaded: ${error.message}`);
    }
  }
  const { start } = await import("./embedded.js");
  return start(root, prepared, fresh);
}

// The address of an example is #feed, for the tab of the operation Feed. It opens the tab again if it is closed.
const menu = document.getElementById("examples");
for (const { slug, name } of examples) {
  const link = Object.assign(document.createElement("a"), { href: "#" + slug, textContent: name });
  menu.querySelector("ul").appendChild(document.createElement("li")).append(link);
}

function openExample() {
  const example = examples.find(({ slug }) => "#" + slug === location.hash);
  if (!example) return;
  const tab = editor.tabs().find(({ name }) => name === example.operation);
  if (!tab) editor.add(example.query);
  else if (!tab.active) tab.select();
}

function showAddress() {
  const active = editor.tabs().find((tab) => tab.active)?.name;
  const hash = examples.find(({ operation }) => operation === active)?.slug;
  history.replaceState(null, "", location.pathname + location.search + (hash ? "#" + hash : ""));
}

openExample();
addEventListener("hashchange", openExample);
root.addEventListener("click", (event) => {
  if (event.isTrusted) setTimeout(showAddress); // when the tab is active
});

menu.addEventListener("click", (event) => {
  if (!event.target.closest("a")) return;
  menu.open = false;
  if (event.target.hash === location.hash) openExample(); // no event: it is the address already
});
menu.addEventListener("keydown", (event) => {
  if (event.key === "Escape") menu.open = false;
});
addEventListener("pointerdown", (event) => {
  if (!menu.contains(event.target)) menu.open = false;
});
document.getElementById("restore").addEventListener("click", () => {
  localStorage.removeItem("byline-playground");
  location.reload();
});

const viewer = document.getElementById("viewer");
viewer.value = localStorage.getItem("byline-viewer") ?? viewer.value;
if (viewer.selectedIndex < 0) viewer.selectedIndex = 0;
viewer.addEventListener("change", () => localStorage.setItem("byline-viewer", viewer.value));
