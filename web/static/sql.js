// A statement of SQL and its rows.
import { ask, query, Refused } from "/static/api.js";
import { el, shown, table } from "/static/dom.js";
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
    found.columns.length ? table(columns, found.rows, "Rows") : null,
  ];
}
