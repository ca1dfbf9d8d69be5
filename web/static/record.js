// One record: its value as text or a tree of JSON, its headers, its bytes.
import { ask, path, query } from "/static/api.js";
import { copyButton, el, shown } from "/static/dom.js";
import { after, bytes, time } from "/static/format.js";

const PREVIEW = 200;
const CHILDREN = 500;
const DEPTH = 100;

export function preview(content) {
  if (content === null) return el("span", { class: "null" }, "null");
  const text = content.form === "json" ? JSON.stringify(content.content) : content.content;
  const prefix = content.form === "base64" ? el("em", { class: "mark" }, "base64 ") : null;
  return el("div", { class: "data" }, prefix, shown(text.slice(0, PREVIEW).replace(/\s+/g, " ")), text.length > PREVIEW || content.is_cut ? "…" : "");
}

export function details(record, signal) {
  const box = el("div");
  const address = `/api/topics/${encodeURIComponent(record.topic)}/partitions/${record.partition}/records/${record.offset}`;
  const place = `${record.topic}-${record.partition}/${record.offset}`;
  const failed = (error) => error.name === "AbortError" || box.append(el("p", { class: "bad", role: "alert" }, shown(error.message)));
  const command = async () => (await ask(`/api/command${query({
    topic: record.topic, partition: record.partition, from: record.offset, to: after(record.offset) })}`, signal)).command;
  const raw = el("button", { type: "button", onclick: async () => {
    raw.disabled = true;
    try {
      const found = await ask(`${address}/raw`, signal);
      box.append(hex("Key", found.key), hex("Value", found.value));
    } catch (error) {
      failed(error);
    }
  } }, "Bytes");
  const fill = (whole) => {
    box.replaceChildren(
      el("div", { class: "actions" },
        el("a", { href: path("topics", record.topic, record.partition) }, shown(`${record.topic}-${record.partition}`)),
        time(record.timestamp_ms), record.timestamp_type,
        copyButton("Copy path", () => place),
        copyButton("Copy JSON", () => JSON.stringify(whole)),
        copyButton("Copy command", command),
        raw,
        el("a", { href: `${address}/value`, download: "" }, "Download value")),
      el("h2", {}, "Key"), whole.key === null ? preview(null) : valueOf(whole.key),
      el("h2", {}, "Value"), whole.schema ? el("p", { class: "muted" }, "schema: ", shown(JSON.stringify(whole.schema))) : "",
      whole.error ? el("p", { class: "warn" }, shown(whole.error)) : "",
      whole.value === null ? preview(null) : valueOf(whole.value),
      whole.headers.length ? el("h2", {}, "Headers") : "",
      whole.headers.length ? el("table", {}, el("tbody", {}, whole.headers.map((each) =>
        el("tr", {}, el("th", { scope: "row" }, preview(each.name)), el("td", { class: "wrap" }, preview(each.value)))))) : "",
      whole.headers_left_out ? el("p", { class: "muted" }, `${whole.headers_left_out} more headers`) : "");
  };
  const isCut = [record.key, record.value].some((each) => each?.is_cut);
  fill(record);
  if (isCut) ask(address, signal).then(fill, failed);
  return box;
}

function valueOf(content) {
  const size = content.is_cut ? el("p", { class: "warn" }, `cut; the whole has ${bytes(content.bytes)}`) : "";
  if (content.form === "json") return el("div", {}, tree(content.content, 0), size);
  if (content.form === "base64") return el("div", {}, el("pre", {}, content.content), el("p", { class: "muted" }, "base64: it is not UTF-8"), size);
  if (!content.is_cut && /^\s*[[{]/.test(content.content)) {
    try {
      return el("div", {}, tree(JSON.parse(content.content), 0), el("details", {}, el("summary", {}, "as text"), el("pre", {}, shown(content.content))));
    } catch {
      // it is no JSON
    }
  }
  return el("div", {}, el("pre", {}, shown(content.content)), size);
}

function tree(value, depth) {
  if (value === null || typeof value !== "object") {
    return el("span", { class: "data" }, shown(typeof value === "string" ? JSON.stringify(value) : String(value)));
  }
  const entries = Object.entries(value);
  const label = Array.isArray(value) ? `[${entries.length}]` : `{${entries.length}}`;
  const inside = el("div", { class: "tree" });
  const fill = () => {
    if (inside.firstChild) return;
    if (depth >= DEPTH) inside.append("deeper than it is shown; see the text");
    else inside.append(...entries.slice(0, CHILDREN).map(([name, each]) => el("div", {}, el("code", {}, shown(name)), ": ", tree(each, depth + 1))),
      entries.length > CHILDREN ? `… ${entries.length - CHILDREN} more; see the text` : "");
  };
  const made = el("details", { ontoggle: () => made.open && fill() }, el("summary", {}, label), inside);
  if (depth < 2 && entries.length <= 50) {
    fill();
    made.open = true;
  }
  return made;
}

function hex(label, content) {
  if (content === null) return el("div", {}, el("h2", {}, `${label}: null`));
  const data = Uint8Array.from(atob(content.content), (each) => each.charCodeAt(0));
  const lines = [];
  for (let at = 0; at < Math.min(data.length, 4096); at += 16) {
    const part = [...data.subarray(at, at + 16)];
    const numbers = part.map((each) => each.toString(16).padStart(2, "0")).join(" ").padEnd(47);
    lines.push(`${at.toString(16).padStart(8, "0")}  ${numbers}  ${part.map((each) => (each > 31 && each < 127 ? String.fromCharCode(each) : ".")).join("")}`);
  }
  return el("div", {}, el("h2", {}, `${label}: ${bytes(content.bytes)}${content.bytes > 4096 ? ", the first 4 KiB" : ""}`), el("pre", {}, lines.join("\n")));
}
