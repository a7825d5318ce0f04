// Starts GraphQL Playground, with workarounds for what no longer works: it is not maintained.
// The server puts `const prepared = {version, tabs, settings};` before this.
"use strict";

// Chromium no longer fires DOMNodeRemoved, which removed the frame of a closed completion
// list.
new MutationObserver((records) => {
  for (const { target } of records) {
    if (target.className === "CodeMirror-hints-wrapper" && !target.querySelector(".CodeMirror-hints")) target.remove();
  }
}).observe(document, { childList: true, subtree: true });

// The playground reformats a document before it sends it, so that the positions of errors
// would not be those in the editor: send the editor's text.
const asTyped = (text) => {
  const message = JSON.parse(text);
  const request = message.payload ?? message; // over WebSocket, or HTTP
  const editor = document.querySelector(".CodeMirror")?.CodeMirror; // the first one is the query's
  if (editor && request.query && request.operationName !== "IntrospectionQuery") {
    request.query = editor.getValue();
    editor.state.completionActive?.close();
  }
  return JSON.stringify(message);
};

// Each request continues the session of the last write, so that tabs read each other's writes.
let session;
const originalFetch = window.fetch;
window.fetch = async (url, init) => {
  if (!init?.body) return originalFetch(url, init);
  const headers = session ? { "Byline-Session": session, ...init.headers } : init.headers;
  const response = await originalFetch(url, { ...init, headers, body: asTyped(init.body) });
  session = response.headers.get("Byline-Session") ?? session;
  return response;
};
const originalSend = WebSocket.prototype.send;
WebSocket.prototype.send = function (text) {
  originalSend.call(this, asTyped(text));
};

addEventListener("load", () => {
  const endpoint = location.origin + "/graphql"; // absolute, as the playground stores its state by it
  const { version, tabs, settings } = prepared;
  const options = { endpoint, subscriptionEndpoint: endpoint.replace("http", "ws"), settings };
  // Keep the user's tabs across a reload, unless the prepared ones have changed, or have the id
  // of a post now.
  const stored = localStorage.getItem("graphql-playground");
  const noPost = (text) => text.includes("POST_" + "ID");
  if (localStorage.getItem("byline-playground") !== version || !stored || (noPost(stored) && !noPost(JSON.stringify(tabs)))) {
    options.tabs = tabs.map((tab) => ({ ...tab, endpoint }));
  }
  localStorage.setItem("byline-playground", version);
  GraphQLPlayground.init(document.getElementById("root"), options);
});
