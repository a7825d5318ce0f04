import { ApolloProvider } from "@apollo/client/react";
import { StrictMode, useSyncExternalStore } from "react";
import { createRoot } from "react-dom/client";
import { client } from "./apollo.ts";
import { Feed } from "./Feed.tsx";
import { Post } from "./Post.tsx";
import { SignIn } from "./SignIn.tsx";

// A demo token is of any name. The page is loaded again, since the connection and the cache belong to one viewer.
function setToken(token: string) {
  sessionStorage.setItem("token", token);
  location.reload();
}

function Viewer() {
  if (sessionStorage.getItem("token")) return <><SignIn /><button onClick={() => setToken("")}>Sign out</button></>;
  return (
    <form action={(form) => setToken(`demo:${String(form.get("name"))}`)}>
      <input name="name" aria-label="Name" defaultValue="ada" required /> <button>Sign in</button>
    </form>
  );
}

const onHashChange = (listener: () => void) => {
  addEventListener("hashchange", listener);
  return () => removeEventListener("hashchange", listener);
};

function App() {
  const id = useSyncExternalStore(onHashChange, () => location.hash.slice(1));
  return <><Viewer /><main>{id ? <Post key={id} id={id} /> : <Feed />}</main></>;
}

createRoot(document.getElementById("root")!).render(
  <StrictMode><ApolloProvider client={client}><App /></ApolloProvider></StrictMode>,
);
