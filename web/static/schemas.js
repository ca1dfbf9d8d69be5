import { ask, query } from "/static/api.js";
import { el, facts, shown, table } from "/static/dom.js";
import { count } from "/static/format.js";

export async function schemas({ signal }) {
  const found = await ask("/api/schemas", signal);
  return ["Schemas", [
    found.left_out.map((each) => el("p", { class: "warn" }, "left out: ", shown(each))),
    found.versions_left_out ? el("p", { class: "warn" }, `${count(found.versions_left_out)} more versions are not shown.`) : null,
    found.versions.length ? table([
      { heading: "Subject", sort: (row) => row.subject,
        cell: (row) => el("a", { href: `/schema${query({ subject: row.subject, version: row.version })}` }, shown(row.subject)) },
      { heading: "Version", number: true, sort: (row) => row.version, cell: (row) => count(row.version) },
      { heading: "Id", number: true, sort: (row) => row.id, cell: (row) => String(row.id) },
      { heading: "Type", sort: (row) => row.type, cell: (row) => shown(row.type) },
      { heading: "State", sort: (row) => row.state, cell: (row) => row.state },
      { heading: "Refers to", cell: (row) => shown(row.references.join(", ")) },
    ], found.versions, "Schemas") : el("p", { class: "muted" }, "There is no topic _schemas, or it has no schemas."),
  ]];
}

export async function schema({ parameters, signal }) {
  const found = await ask(`/api/schema${query({ subject: parameters.get("subject"), version: parameters.get("version") })}`, signal);
  let text = found.text;
  try {
    if (!found.is_cut) text = JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    // Protobuf
  }
  return [`${found.subject}, version ${found.version}`, [
    el("p", {}, el("a", { href: "/schemas" }, "All schemas")),
    facts([["id", String(found.id)], ["type", found.type]]),
    el("pre", { tabindex: 0 }, shown(text)),
    found.is_cut ? el("p", { class: "warn" }, "cut") : null,
  ]];
}
