// Records: a page of them by offset or time, or a search that shows what it finds while it goes on.
import { ask, listen, query, Refused } from "/static/api.js";
import { copyButton, el, shown } from "/static/dom.js";
import { after, bytes, count, time } from "/static/format.js";
import { details, preview } from "/static/record.js";

const FIELDS = ["topic", "partition", "from", "to", "key", "text", "regex", "in", "header", "where", "ignore_case", "newest"];
const CONDITIONS = ["key", "text", "regex", "header", "where"];
const PAGE = 50;

export async function records({ parameters, signal, go, say }) {
  const wanted = Object.fromEntries(FIELDS.map((name) => [name, parameters.get(name) ?? ""]));
  const isSearch = CONDITIONS.some((name) => wanted[name] !== "");
  if (!wanted.in) wanted.in = "value";
  const title = [wanted.topic || "All topics", wanted.partition].filter(Boolean).join("-");
  const list = new RecordTable(signal);
  const top = form(wanted, go);
  if (!wanted.topic && !isSearch) return ["Search records", [top]];
  const { newest, ...conditions } = wanted;
  if (isSearch) {
    return [title, [top, el("p", { class: "actions" }, searching(list, conditions, signal, say)), taken(conditions, signal), list.box]];
  }
  const isNewest = newest === "true" || (newest === "" && !wanted.from);
  let found;
  try {
    found = await ask(`/api/records${query({ ...conditions, limit: PAGE, newest: isNewest })}`, signal);
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    return [title, [top, el("p", { class: "bad", role: "alert" }, shown(error.message))]];
  }
  const shownRecords = isNewest ? found.records.toReversed() : found.records;
  list.add(shownRecords);
  const single = wanted.topic && wanted.partition !== "" && shownRecords.length;
  const place = { topic: wanted.topic, partition: wanted.partition };
  const steps = single ? [
    el("a", { class: "button", href: `/records${query({ ...place, to: shownRecords[0].offset, newest: true })}` }, "Older"),
    el("a", { class: "button", href: `/records${query({ ...place, from: after(shownRecords.at(-1).offset) })}` }, "Newer"),
  ] : [];
  if (wanted.topic && wanted.partition !== "") steps.push(follow(list, place, shownRecords, signal, say));
  return [title, [
    top,
    el("p", { class: "actions" }, steps),
    taken(conditions, signal),
    el("p", { class: "muted" }, `${count(shownRecords.length)} records${isNewest ? ", the newest" : ""}`),
    found.left_out.map((each) => el("p", { class: "warn" }, "left out: ", shown(each))),
    list.box,
  ]];
}

// What leaves the page: files of all that is found, and the command that finds it.
function taken(conditions, signal) {
  const link = (format, label) => el("a", { href: `/api/download${query({ ...conditions, format })}`, download: "" }, label);
  return el("p", { class: "actions" }, "Download all:", link("ndjson", "NDJSON"), link("csv", "CSV"), link("parquet", "Parquet"),
    copyButton("Copy command", async () => (await ask(`/api/command${query(conditions)}`, signal)).command));
}

function form(wanted, go) {
  const field = (name, label, attributes = {}) => el("label", {}, label, el("input", { name, value: wanted[name], autocomplete: "off", ...attributes }));
  const submit = (event) => {
    event.preventDefault();
    const values = Object.fromEntries(new FormData(event.target));
    if (values.in === "value") delete values.in;
    go(`/records${query(values)}`);
  };
  return el("form", { onsubmit: submit, role: "search" },
    field("topic", "Topic", { placeholder: "all" }),
    field("partition", "Partition", { inputmode: "numeric", placeholder: "all", size: 5 }),
    field("from", "From", { placeholder: "offset or time", size: 14 }),
    field("to", "Before", { placeholder: "offset or time", size: 14 }),
    field("key", "Key"),
    field("text", "Text"),
    field("regex", "Regular expression"),
    el("label", {}, "in", el("select", { name: "in" }, ["value", "key", "headers", "any"].map((each) =>
      el("option", { value: each, selected: each === wanted.in }, each)))),
    el("label", { class: "beside" }, el("input", { type: "checkbox", name: "ignore_case", value: "true", checked: wanted.ignore_case === "true" }), "ignore case"),
    field("header", "Header", { placeholder: "NAME=VALUE" }),
    field("where", "Where, in SQL", { placeholder: "value->>'status' = 'lost'", size: 30, spellcheck: "false" }),
    el("button", {}, "Show"));
}

function searching(list, conditions, signal, say) {
  const own = new AbortController();
  signal.addEventListener("abort", () => own.abort());
  const state = el("span", { role: "status", class: "state" }, "searching …");
  const button = el("button", { type: "button", onclick: () => own.abort() }, "Stop");
  let found = 0;
  const end = (text, isBad = false) => {
    state.textContent = text;
    state.className = isBad ? "state bad" : "state";
    button.remove();
    say("");
  };
  listen(`/api/search${query(conditions)}`, {
    records: (some) => {
      found += some.length;
      list.add(some);
      state.textContent = `${count(found)} found so far`;
    },
    progress: ({ done_bytes, total_bytes }) => {
      state.textContent = `${count(found)} found so far, ${bytes(done_bytes)} of ${bytes(total_bytes)} searched`;
    },
    failure: ({ error }) => end(error, true),
    end: (summary) => {
      end(`${count(summary.found)} found${summary.is_limited ? "; there may be more: narrow the search, or download" : ""}`);
      for (const each of summary.left_out) list.box.before(el("p", { class: "warn" }, "left out: ", shown(each)));
      if (summary.damaged) list.box.before(el("p", { class: "bad" }, `${count(summary.damaged)} damaged places were left out`));
    },
  }, own.signal).catch((error) => {
    if (error.name === "AbortError") end(`stopped: ${count(found)} found so far`);
    else end(error instanceof Refused ? error.message : "the connection ended before the search", true);
  });
  return [state, button];
}

const FOLLOWED_MAX = 2000;

function follow(list, place, last, signal, say) {
  let own = null;
  let next = last.length ? after(last.at(-1).offset) : null;
  const stop = () => {
    own?.abort();
    own = null;
    button.setAttribute("aria-pressed", "false");
    button.textContent = "Follow";
  };
  const start = () => {
    const mine = (own = new AbortController());
    button.setAttribute("aria-pressed", "true");
    button.textContent = "Stop following";
    const failed = (text) => {
      if (own !== mine) return;
      stop();
      say(text);
    };
    const address = `/api/topics/${encodeURIComponent(place.topic)}/partitions/${place.partition}/follow`;
    listen(`${address}${query({ from: next })}`, {
      records: (some) => {
        next = after(some.at(-1).offset);
        list.add(some);
        list.keep(FOLLOWED_MAX);
      },
      left_out: (missed) => say(`left out: ${missed.left_out.join("; ")}`),
      failure: ({ error }) => failed(error),
    }, mine.signal).then(() => failed("the server ended the stream"), (error) => error.name === "AbortError" || failed(error.message));
  };
  const button = el("button", { type: "button", "aria-pressed": "false", onclick: () => (own ? stop() : start()) }, "Follow");
  signal.addEventListener("abort", stop);
  return button;
}

// Rows of records, each with a button that shows the whole record below.
class RecordTable {
  constructor(signal) {
    this.signal = signal;
    this.body = el("tbody");
    this.box = el("div", { class: "scroll" }, el("table", { class: "records" },
      el("thead", {}, el("tr", {}, ["Place", "Time", "Key", "Value"].map((each) => el("th", { scope: "col" }, each)))), this.body));
  }

  // Removes the first rows until so many are left.
  keep(number) {
    while (this.body.rows.length > number) this.body.rows[0].remove();
  }

  add(some) {
    this.body.append(...some.map((record) => this.row(record)));
  }

  row(record) {
    const place = `${record.topic}-${record.partition}/${record.offset}`;
    let below = null;
    const button = el("button", { type: "button", class: "place", "aria-expanded": "false", onclick: () => {
      const isOpen = below === null;
      button.setAttribute("aria-expanded", String(isOpen));
      if (isOpen) {
        below = el("tr", { class: "details" }, el("td", { colspan: 4 }, details(record, this.signal)));
        row.after(below);
      } else {
        below.remove();
        below = null;
      }
    } }, place);
    const row = el("tr", {}, el("td", {}, button), el("td", {}, time(record.timestamp_ms)),
      el("td", {}, preview(record.key)), el("td", {}, preview(record.value)));
    return row;
  }
}
