// Reports of the commands groups and doctor: facts, tables, findings.
import { ask, path } from "/static/api.js";
import { asTable, lineChart } from "/static/charts.js";
import { el, facts, shown, table } from "/static/dom.js";
import { count, local, measured, seconds, time } from "/static/format.js";

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
    el("h2", { class: { damage: "bad", warning: "warn" }[each.severity] ?? null }, `${each.severity}: ${each.kind}, `, shown(each.place)),
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

const partitionLink = { partition: (row) => {
  const at = row.partition.lastIndexOf("-");
  return el("a", { href: path("topics", row.partition.slice(0, at), row.partition.slice(at + 1)) }, shown(row.partition));
} };

// How far a group was behind between its commits.
function past(points) {
  if (points.length < 2) return [];
  return [
    el("h2", {}, "Lag, in records"),
    lineChart("Lag in records", points.map((each) => ({ x: each.time_ms, y: each.lag })), local, count),
    el("h2", {}, "Lag, in time"),
    lineChart("Lag in time", points.map((each) => ({ x: each.time_ms, y: each.lag_seconds })), local, seconds),
    el("p", { class: "muted" }, "From the commits that compaction has left, and the time indexes of the topics."),
    asTable(["Time", "Records behind", "Behind"], points.map((each) => [time(each.time_ms), count(each.lag), seconds(each.lag_seconds)])),
  ];
}

export async function group({ values: [name], signal }) {
  const report = await ask(`/api${path("groups", name)}`, signal);
  return [name, [el("p", {}, el("a", { href: "/groups" }, "All groups")), factsOf(report), findingsOf(report), past(report.past), tables(report, partitionLink), rest(report)]];
}

export async function findings({ signal }) {
  const report = await ask("/api/findings", signal);
  const found = report.findings.length ? findingsOf(report) : el("p", { class: "good" }, "Nothing is wrong with what was looked at.");
  return ["Findings", [factsOf(report), found, tables(report), rest(report)]];
}
