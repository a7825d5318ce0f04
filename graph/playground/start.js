// Starts GraphQL Playground, which is no longer maintained, and repairs what has aged.
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
  const editor = document.querySelector(".CodeMirror"); // the first one is the query's
  if (editor && request.query && request.operationName !== "IntrospectionQuery") request.query = editor.CodeMirror.getValue();
  return JSON.stringify(message);
};
const originalFetch = window.fetch;
window.fetch = (url, init) => originalFetch(url, init?.body ? { ...init, body: asTyped(init.body) } : init);
const originalSend = WebSocket.prototype.send;
WebSocket.prototype.send = function (text) {
  originalSend.call(this, asTyped(text));
};

addEventListener("load", () => {
  const endpoint = location.origin + "/graphql"; // absolute, as the playground stores its state by it
  const { version, tabs, settings } = prepared;
  const options = { endpoint, subscriptionEndpoint: endpoint.replace("http", "ws"), settings };
  // Keep the user's tabs across a reload, unless the prepared ones have changed.
  if (localStorage.getItem("byline-playground") !== version || !localStorage.getItem("graphql-playground")) {
    options.tabs = tabs.map((tab) => ({ ...tab, endpoint }));
  }
  localStorage.setItem("byline-playground", version);
  GraphQLPlayground.init(document.getElementById("root"), options);
});
