// The router: each view has an address of its own, and ends what it asked when another one is shown.
import { Refused } from "/static/api.js";
import { el, shown } from "/static/dom.js";
import { ZONE } from "/static/format.js";
import { overview } from "/static/overview.js";
import { partition } from "/static/partition.js";
import { records } from "/static/records.js";
import { findings, group, groups } from "/static/reports.js";
import { schema, schemas } from "/static/schemas.js";
import { sql } from "/static/sql.js";
import { topic } from "/static/topic.js";

const VIEWS = [
  [/^\/$/, overview],
  [/^\/topics\/([^/]+)$/, topic],
  [/^\/topics\/([^/]+)\/(\d+)$/, partition],
  [/^\/records$/, records],
  [/^\/groups$/, groups],
  [/^\/groups\/([^/]+)$/, group],
  [/^\/findings$/, findings],
  [/^\/schemas$/, schemas],
  [/^\/schema$/, schema],
  [/^\/sql$/, sql],
];

const view = document.getElementById("view");
const status = document.getElementById("status");
let current = new AbortController();

export function say(text) {
  status.textContent = text;
}

async function render() {
  current.abort();
  const mine = (current = new AbortController());
  for (const link of document.querySelectorAll("nav a")) {
    const target = link.getAttribute("href");
    const isHere = target === location.pathname || (target === "/" && location.pathname.startsWith("/topics/"));
    if (isHere) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  const [, make, values] = VIEWS.map(([pattern, make]) => [pattern, make, pattern.exec(location.pathname)])
    .find(([, , match]) => match) ?? [null, missing, []];
  say("Loading …");
  let content;
  let title = "offsetfs";
  try {
    const made = await make({
      values: values.slice(1).map(decodeURIComponent),
      parameters: new URLSearchParams(location.search),
      signal: mine.signal,
      go,
      say,
    });
    [title, content] = made;
  } catch (error) {
    if (error.name === "AbortError") return;
    title = "It failed";
    content = [el("p", { class: "bad", role: "alert" }, shown(error instanceof Refused ? error.message : `internal error: ${error}`))];
  }
  if (mine.signal.aborted) return;
  const heading = el("h1", { tabindex: -1 }, shown(title));
  view.replaceChildren(heading, el("div", {}, content));
  view.dataset.ready = location.pathname + location.search;
  document.title = `${title} – offsetfs`;
  say("");
  heading.focus({ preventScroll: true });
  scrollTo(0, 0);
}

function missing() {
  return ["There is no such page", [el("p", {}, el("a", { href: "/" }, "All topics"))]];
}

export function go(address, replaces = false) {
  if (replaces) history.replaceState(null, "", address);
  else history.pushState(null, "", address);
  render();
}

document.addEventListener("click", (event) => {
  const link = event.target.closest("a");
  const target = link?.getAttribute("href");
  if (!target?.startsWith("/") || target.startsWith("/api/") || link.hasAttribute("download")) return;
  if (event.button || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
  event.preventDefault();
  go(target);
});
document.addEventListener("keydown", (event) => {
  if (event.key !== "/" || event.target.matches("input, select, textarea")) return;
  const field = view.querySelector("input");
  if (field) {
    event.preventDefault();
    field.focus();
  }
});
document.getElementById("zone").textContent = `times in ${ZONE}`;
addEventListener("popstate", render);
render();
