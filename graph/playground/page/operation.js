// Sends an operation to the server as the viewer that is selected in the header, and shows its cost there.

let session; // of the last write, so that tabs read each other's writes

// observe returns the responses as an observable, which both editors take. listening is called when the server has accepted
// a subscription.
export function observe(request, headers, listening) {
  return {
    subscribe(observer) {
      const abort = new AbortController();
      send(request, headers, observer, listening, abort.signal).then(
        () => observer.complete?.(),
        (error) => abort.signal.aborted || observer.error?.(error));
      return { unsubscribe: () => abort.abort() };
    },
  };
}

// operations lists the operations of a document as [kind, name]. Editors parse a text only a while after it has changed:
// at a tab's first run, what they know about it may be about the previous tab.
function operations(document) {
  const code = document.replace(/"""[^]*?"""|"(\\.|[^"\\\n])*"|#.*/g, "");
  return [...code.matchAll(/\b(query|mutation|subscription)\b\s*(\w*)\s*[({@]/g)].map(([, ...operation]) => operation);
}

const postID = "POST_ID"; // in examples that were opened before there was a post

async function withPost(query) {
  if (!query.includes(postID)) return query;
  const { post } = await (await fetch("/playground/prepared.json")).json();
  if (!post) throw new Error("The blog has no post yet: run the example \"Write a post\" first.");
  return query.replaceAll(postID, post);
}

async function send(request, headers, observer, listening, signal) {
  request = { ...request, query: await withPost(request.query) };
  const all = operations(request.query);
  const named = all.find(([, name]) => name === request.operationName);
  if (!named) delete request.operationName;
  const streams = (named ?? all[0])?.[0] === "subscription";
  const own = new Headers({ "Content-Type": "application/json", Accept: streams ? "text/event-stream" : "application/json" });
  const viewer = document.getElementById("viewer").value;
  if (viewer) own.set("Authorization", `Bearer ${viewer}`);
  if (session) own.set("Byline-Session", session);
  const measured = request.operationName !== "IntrospectionQuery";
  if (measured) own.set("Byline-Cost", "summary");
  const reported = Object.keys(headers ?? {}).some((name) => name.toLowerCase() === "byline-cost");
  for (const [name, value] of Object.entries(headers ?? {})) own.set(name, value);

  if (measured) showCost();
  const receive = (response) => observer.next(explained(measured && !reported ? withoutCost(response) : response));
  const response = await fetch("/graphql", { method: "POST", headers: own, body: JSON.stringify(request), signal });
  session = response.headers.get("Byline-Session") ?? session;
  if (!response.headers.get("Content-Type")?.startsWith("text/event-stream")) return receive(await response.json());
  listening?.(observer);
  for await (const event of events(response.body)) receive(event);
}

// events yields the responses of an event stream until it is complete.
async function* events(body) {
  let text = "";
  for await (const chunk of body.pipeThrough(new TextDecoderStream())) {
    text += chunk;
    for (let end; (end = text.indexOf("\n\n")) >= 0; text = text.slice(end + 2)) {
      const lines = text.slice(0, end).split("\n");
      if (lines.includes("event: complete")) return;
      const data = lines.find((line) => line.startsWith("data: "));
      if (lines.includes("event: next") && data) yield JSON.parse(data.slice("data: ".length));
    }
  }
  throw new Error("The server closed the stream.");
}

// withoutCost shows the cost of a response in the header instead of before its data.
function withoutCost({ extensions, ...response }) {
  if (!extensions?.cost) return extensions ? { ...response, extensions } : response;
  const { cost, ...others } = extensions;
  showCost(cost);
  return Object.keys(others).length ? { ...response, extensions: others } : response;
}

const hints = {
  NO_TOKEN: 'You are anonymous: select another viewer above, in "Viewer".',
  NO_USER: 'The viewer has no user yet: run the example "Sign up".',
};

// explained says in the messages of errors what to do about them in the playground.
function explained(response) {
  if (!response.errors) return response;
  const errors = response.errors.map((error) => {
    const hint = hints[error.extensions?.reason];
    return hint ? { ...error, message: `${error.message}. ${hint}` } : error;
  });
  return { ...response, errors };
}

function showCost(cost) {
  document.getElementById("cost").value = cost ? costText(cost) : "No cost yet";
}

function costText({ predictedRU, actualRU, requests, laterRU, laterItems }) {
  const ru = (n) => n.toFixed(1);
  const plural = (n, noun) => `${n} ${noun}${n === 1 ? "" : "s"}`;
  const items = laterItems ? ` for ${plural(laterItems, "item")}` : "";
  const later = laterRU ? `, about ${Number(laterRU.toPrecision(2)).toLocaleString("en")} later${items}` : "";
  return `${ru(predictedRU)} RU predicted, ${ru(actualRU)} charged${later}, ${plural(requests, "request")}`;
}
