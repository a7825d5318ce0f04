import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { App } from "./app/App";
import { keepScrollPositions } from "./app/navigation";
import { loadFeed } from "./feed/feedQuery";
import "./styles/base.css";

// The font of the text, after the code, with which it would compete, and before the text is laid out.
document.fonts.load('1em "Source Serif 4"').catch(() => undefined);

keepScrollPositions();

const container = document.getElementById("root");
if (!container) throw new Error("index.html has no #root");
const root = createRoot(container);

const page = (
  <StrictMode>
    <App />
  </StrictMode>
);

// React shows the placeholder of a page for 300 ms at least. The feed, which index.html requests, is usually there.
const moment = new Promise((resolve) => setTimeout(resolve, 200));
const feed = location.pathname === "/" ? loadFeed().catch(() => undefined) : undefined;
void Promise.race([feed, moment]).then(() => {
  root.render(page);
});
