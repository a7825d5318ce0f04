import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { App } from "./app/App";
import { keepScrollPositions } from "./app/navigation";
import { openSearchByKey } from "./app/openSearch";
import { currentPage, loaded } from "./app/page";
import "./styles/base.css";

// The font of the text, after the code, with which it would compete, and before the text is laid out.
document.fonts.load('1em "Source Serif 4"').catch(() => undefined);

keepScrollPositions();
openSearchByKey();

const container = document.getElementById("root");
if (!container) throw new Error("index.html has no #root");
const root = createRoot(container);

const page = (
  <StrictMode>
    <App />
  </StrictMode>
);

// React shows the placeholder of a page for 300 ms at least. A page is often there sooner: index.html, for example,
// requests the data of the front page. What the gateway has rendered stays until the page can replace it.
const moment = new Promise((resolve) => setTimeout(resolve, container.querySelector("main") ? 10_000 : 200));
void Promise.race([loaded(currentPage()), moment]).then(() => {
  root.render(page);
});
