// GraphiQL 5 with its explorer plugin, as the package @graphql-yoga/graphiql bundles it. GraphiQL itself is only
// published as several hundred modules, which no CDN can serve with known hashes.
import { observe } from "./operation.js";

// reach fails if the CDN does not respond within two seconds.
export async function reach({ url, integrity }) {
  const file = "package.json";
  await fetch(url + file, { integrity: integrity[file], signal: AbortSignal.timeout(2000) });
}

// start loads GraphiQL into the page and renders it.
export async function start(root, { cdn, examples }, fresh) {
  const { url, integrity } = cdn;
  const workers = {
    editorWorkerService: "dist/monacoeditorwork/editor.worker.bundle.js",
    graphql: "dist/monacoeditorwork/graphql.worker..bundle.js",
    json: "dist/monacoeditorwork/json.worker.bundle.js",
  };
  globalThis.MonacoEnvironment = {
    globalAPI: true, // for add
    async getWorker(_, label) { // of a blob, as pages may not start workers of other origins
      const file = workers[label];
      const script = await (await fetch(url + file, { integrity: integrity[file] })).blob();
      return new Worker(URL.createObjectURL(script.slice(0, script.size, "text/javascript")), { name: label });
    },
  };
  const styles = "dist/graphiql.css", script = "dist/yoga-graphiql.umd.js";
  await Promise.all([
    append("link", { rel: "stylesheet", href: url + styles, integrity: integrity[styles], crossOrigin: "anonymous" }),
    append("script", { src: url + script, integrity: integrity[script], crossOrigin: "anonymous" }),
  ]);

  if (fresh) localStorage.removeItem("graphiql:tabState");
  const stored = JSON.parse(localStorage.getItem("graphiql:tabState"));
  const active = stored?.tabs[stored.activeTabIndex] ?? examples[0]; // GraphiQL looks for its text among the tabs
  YogaGraphiQL.renderYogaGraphiQL(root, {
    fetcher: (request, { headers } = {}) => observe(request, headers, listening),
    defaultTabs: examples.map(({ query }) => ({ query })),
    defaultQuery: "",
    defaultEditorToolsVisibility: false, // no example has variables
    initialQuery: active.query ?? "",
    initialVariables: active.variables ?? "",
    initialHeaders: active.headers ?? "",
    onEditQuery() {}, // else the text would be written into the address
    title: "",
    logo: "<span></span>",
  });
  await rendered(root);
  for (const editor of monaco.editor.getEditors()) editor.updateOptions({ wordWrap: "on" });
  return { tabs, add };
}

// listening shows that a subscription waits for its first event, as the embedded playground does.
function listening(observer) {
  observer.next("Listening …");
}

function append(tag, attributes) {
  return new Promise((loaded, failed) => {
    const element = Object.assign(document.createElement(tag), attributes);
    element.onload = loaded;
    element.onerror = () => {
      element.remove();
      failed(new Error(`${element.src ?? element.href} cannot be loaded`));
    };
    document.head.append(element);
  });
}

// rendered waits until the tabs are there.
function rendered(root) {
  return new Promise((done) => {
    const observer = new MutationObserver(() => {
      if (!root.querySelector(".graphiql-tab-add")) return;
      observer.disconnect();
      done();
    });
    observer.observe(root, { childList: true, subtree: true });
  });
}

function tabs() {
  return [...document.querySelectorAll(".graphiql-tab")].map((tab) => {
    const button = tab.querySelector(".graphiql-tab-button");
    return { name: button.textContent, active: tab.classList.contains("graphiql-tab-active"), select: () => button.click() };
  });
}

function add(query) {
  document.querySelector(".graphiql-tab-add").click();
  const model = monaco.editor.getModels().find(({ uri }) => uri.path.endsWith("operation.graphql"));
  setTimeout(() => model.setValue(query)); // when the new tab is active
}
