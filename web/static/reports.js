// Reports of the commands groups and doctor: facts, tables, findings.
import { ask, path } from "/static/api.js";
import { el, facts, shown, table } from "/static/dom.js";
import { measured } from "/static/format.js";

function tables(report, cells = {}) {
  return Object.entries(report.tables).map(([key, rows]) => [
    el("h2", {}, report.titles[key]),
    rows.length ? table(report.columns[key].map((column) => ({
      heading: column.heading.toLowerCase(),
      number: column.kind !== "text" && column.kind !== "time",
      sort: (row) => row[column.key],
      cell: (row) => cells[column.key]?.(row) ?? text(row[column.key], column.kind),
    })), rows, report.titles[key]) : el("p", { class: "muted" }, "None."),
  ]);
}

function text(value, kind) {
  const made = measured(value, kind);
  return typeof made === "string" ? shown(made) : made;
}

function findingsOf(report) {
  return report.findings.map((each) => el("article", {},
    el("h3", { class: { damage: "bad", warning: "warn" }[each.severity] ?? null }, `${each.severity}: ${each.kind}, `, shown(each.place)),
    el("p", {}, shown(each.evidence)),
    el("p", {}, el("strong", {}, "Consequence: "), shown(each.consequence)),
    each.remedy ? [el("p", {}, el("strong", {}, "Remedy:")), el("pre", {}, shown(each.remedy))] : null));
}

function rest(report) {
  return [
    report.unseen.map((each) => el("p", { class: "warn" }, "not looked at: ", shown(each))),
    report.notes.map((each) => el("p", { class: "muted" }, shown(each))),
  ];
}

const factsOf = (report) => facts(report.labels.map(({ key, label, kind }) => [label, text(report.facts[key], kind)]));

export async function groups({ signal }) {
  const report = await ask("/api/groups", signal);
  const cells = { group: (row) => el("a", { href: path("groups", row.group) }, shown(row.group)) };
  return ["Consumer groups", [factsOf(report), tables(report, cells), findingsOf(report), rest(report)]];
}

export async function group({ values: [name], signal }) {
  const report = await ask(`/api${path("groups", name)}`, signal);
  return [name, [el("p", {}, el("a", { href: "/groups" }, "All groups")), factsOf(report), findingsOf(report), tables(report), rest(report)]];
}

export async function findings({ signal }) {
  const report = await ask("/api/findings", signal);
  const found = report.findings.length ? findingsOf(report) : el("p", { class: "good" }, "Nothing is wrong with what was looked at.");
  return ["Findings", [factsOf(report), found, tables(report), rest(report)]];
}
