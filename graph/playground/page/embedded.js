// GraphQL Playground, which the server embeds, with workarounds for what no longer works: it is not maintained.
import { observe } from "./operation.js";

export async function start(root, { examples }, fresh) {
  document.head.append(Object.assign(document.createElement("link"), { rel: "stylesheet", href: "/playground/embedded.css" }));
  await new Promise((loaded, failed) => {
    document.head.append(Object.assign(document.createElement("script"), { src: "/playground/playground.js", onload: loaded, onerror: failed }));
  });
  repair();

  const endpoint = location.origin + "/graphql"; // absolute, as the playground stores its state by it
  const dark = matchMedia("(prefers-color-scheme: dark)");
  dark.addEventListener("change", () => location.reload());
  const options = {
    endpoint,
    createApolloLink: ({ headers }) => ({ link: { request: (operation) => send(operation, headers) } }),
    settings: {
      "editor.theme": dark.matches ? "dark" : "light",
      "editor.cursorShape": "line",
      "schema.disableComments": false,
      "schema.polling.enable": false,
      "general.betaUpdates": false,
    },
  };
  if (fresh || !localStorage.getItem("graphql-playground")) options.tabs = examples.map(({ operation, query }) => ({ name: operation, query, endpoint }));
  GraphQLPlayground.init(root, options);
  return { tabs, add };
}

// send sends the text as it is in the editor, so that the positions of errors are those in the editor.
function send({ query, operationName, variables }, headers) {
  document.querySelector(".CodeMirror")?.CodeMirror.state.completionActive?.close();
  return observe({ query: query.loc.source.body, operationName, variables }, headers);
}

// repair removes the frame of a closed completion list, which DOMNodeRemoved did: browsers no longer fire it. It wraps
// lines, and lets screen readers and keyboards reach what the playground does not name or focus.
function repair() {
  new MutationObserver((records) => {
    for (const { target } of records) {
      if (target.className === "CodeMirror-hints-wrapper" && !target.querySelector(".CodeMirror-hints")) target.remove();
    }
    for (const { CodeMirror } of document.querySelectorAll(".CodeMirror")) {
      if (!CodeMirror?.getOption("lineWrapping")) CodeMirror?.setOption("lineWrapping", true);
    }
    for (const area of document.querySelectorAll(".CodeMirror textarea:not([aria-label])")) area.ariaLabel = "Editor";
    const scrolls = ".CodeMirror-scroll[tabindex='-1'], :is(.sc-daURTG, .sc-esjQYD):not([tabindex])";
    for (const scrolled of document.querySelectorAll(scrolls)) scrolled.tabIndex = 0;
  }).observe(document, { childList: true, subtree: true });
}

const close = ".close", newTab = ".sc-bXGyLb"; // buttons: of each tab, and after the last one

function tabs() {
  const { backgroundColor } = getComputedStyle(document.querySelector(".graphiql-wrapper button").parentElement);
  return [...document.querySelectorAll(close)].map(({ parentElement: tab }) => ({
    name: tab.children[1].textContent,
    active: getComputedStyle(tab).backgroundColor === backgroundColor, // that of the toolbar, below
    select: () => tab.dispatchEvent(new MouseEvent("mousedown", { bubbles: true })),
  }));
}

function add(query) {
  document.querySelector(newTab).click();
  setTimeout(() => document.querySelector(".CodeMirror").CodeMirror.setValue(query)); // when the new tab is active
}
