// A statement of SQL and its rows.
import { ask, query, Refused } from "/static/api.js";
import { barChart, lineChart } from "/static/charts.js";
import { el, plain, shown, table } from "/static/dom.js";
import { count } from "/static/format.js";

export async function sql({ parameters, signal, go }) {
  const statement = parameters.get("statement") ?? "";
  const field = el("textarea", { name: "statement", spellcheck: "false", placeholder: "SELECT key_text, count(*) FROM orders GROUP BY 1 ORDER BY 2 DESC" });
  field.value = statement;
  const form = el("form", { onsubmit: (event) => {
    event.preventDefault();
    go(`/sql${query({ statement: field.value })}`);
  } }, el("label", {}, "Statement of DuckDB; each topic is a table", field), el("button", {}, "Run (Ctrl+Enter)"));
  field.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) form.requestSubmit();
  });
  return ["SQL", [form, statement.trim() ? await rowsOf(statement, signal) : null]];
}

async function rowsOf(statement, signal) {
  let found;
  try {
    found = await ask("/api/sql", signal, { statement });
  } catch (error) {
    if (!(error instanceof Refused)) throw error;
    return el("p", { class: "bad", role: "alert" }, shown(error.message));
  }
  const columns = found.columns.map((name, number) => ({
    heading: name,
    number: found.rows.every((row) => row[number] === null || typeof row[number] === "number"),
    sort: (row) => row[number],
    cell: (row) => row[number] === null ? el("span", { class: "null" }, "null") : el("div", { class: "data" }, shown(String(row[number]))),
  }));
  return [
    found.left_out.map((each) => el("p", { class: "warn" }, "left out: ", shown(each))),
    el("p", { class: "muted", role: "status" }, found.is_cut ? `the first ${count(found.rows.length)} rows` : `${count(found.rows.length)} rows`),
    chartOf(found),
    found.columns.length ? table(columns, found.rows, "Rows") : null,
  ];
}

const BARS_MAX = 40;

// A line of a number over numbers or times that rise, or bars of a number by the values of another column.
function chartOf({ columns, rows }) {
  const isNumber = columns.map((_, at) => rows.some((row) => row[at] !== null) && rows.every((row) => row[at] === null || typeof row[at] === "number"));
  const value = columns.findLastIndex((_, at) => at > 0 && isNumber[at]);
  if (value < 0 || rows.length < 2) return null;
  const label = plain(`${columns[value]} by ${columns[0]}`);
  const places = rows.map((row) => (isNumber[0] ? row[0] : timeOf(row[0])));
  const rises = places.every((place, at) => place !== null && (at === 0 || place > places[at - 1]));
  if (rises && rows.length > 2) {
    const texts = new Map(places.map((place, at) => [place, String(rows[at][0])]));
    return el("figure", {}, el("figcaption", {}, label),
      lineChart(label, rows.map((row, at) => ({ x: places[at], y: row[value] })), (place) => texts.get(place), count));
  }
  if (rows.length > BARS_MAX || value !== 1) return null;
  return el("figure", {}, el("figcaption", {}, label), barChart(label, rows.map((row) => ({ name: String(row[0]), value: row[1] }))));
}

function timeOf(value) {
  if (typeof value !== "string" || !/^\d{4}-\d\d-\d\d/.test(value)) return null;
  const ms = Date.parse(value.replace(" ", "T"));
  return Number.isNaN(ms) ? null : ms;
}
