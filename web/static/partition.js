import { ask, path, query } from "/static/api.js";
import { segmentMap } from "/static/charts.js";
import { el, facts, shown, table } from "/static/dom.js";
import { bytes, count, time } from "/static/format.js";
import { byTime } from "/static/topic.js";

export async function partition(context) {
  const [topic, number] = context.values;
  const found = await ask(`/api/topics/${encodeURIComponent(topic)}/partitions/${number}`, context.signal);
  const chart = await byTime({ ...context, topic, partition: number });
  const linkOf = (from) => `/records${query({ topic, partition: number, from })}`;
  const left = (number, what) => (number ? el("p", { class: "muted" }, `${count(number)} more ${what} are not shown.`) : null);
  return [`${topic}-${number}`, [
    el("p", {}, el("a", { href: path("topics", topic) }, shown(topic))),
    facts([
      ["start", count(found.start_offset)],
      ["end", count(found.end_offset)],
      ["high watermark", count(found.high_watermark)],
      ["last stable offset", count(found.last_stable_offset)],
      ["size", bytes(found.size_bytes)],
      ["newest record", time(found.latest_ms)],
    ]),
    found.remote_note ? el("p", { class: "warn" }, shown(found.remote_note)) : null,
    el("p", { class: "actions" },
      el("a", { class: "button", href: `/records${query({ topic, partition: number })}` }, "Newest records"),
      el("a", { class: "button", href: linkOf(found.start_offset) }, "Oldest records")),
    el("h2", {}, "Segments"),
    segmentMap(found, linkOf),
    el("p", { class: "muted" }, "Width: offsets; height: bytes. A segment leads to its records. Index, time index: their entries."),
    left(found.segments_left_out, "segments, the oldest,"),
    table([
      { heading: "Base offset", number: true, sort: (row) => row.base_offset,
        cell: (row) => el("a", { href: linkOf(row.base_offset) }, count(row.base_offset)) },
      { heading: "End", number: true, sort: (row) => row.end_offset, cell: (row) => count(row.end_offset) },
      { heading: "Gap behind", number: true, sort: (row) => row.missing_behind, cell: (row) => count(row.missing_behind) },
      { heading: "Size", number: true, sort: (row) => row.size_bytes, cell: (row) => bytes(row.size_bytes) },
      { heading: "First record", sort: (row) => row.first_ms, cell: (row) => time(row.first_ms) },
      { heading: "Newest record", sort: (row) => row.latest_ms, cell: (row) => time(row.latest_ms) },
      { heading: "Index", number: true, sort: (row) => row.index_entries, cell: (row) => count(row.index_entries) },
      { heading: "Time index", number: true, sort: (row) => row.time_index_entries, cell: (row) => count(row.time_index_entries) },
    ], found.segments, "Segments"),
    chart,
    found.damage.length ? [el("h2", {}, "Damage"), found.damage.map((each) => el("p", { class: "bad" },
      shown(`${each.path}, position ${each.position}: ${each.reason}`)))] : null,
    found.cut.length ? [el("h2", {}, "Cut by a recovery"), found.cut.map((each) => el("p", {}, el("code", {}, each)))] : null,
    found.aborted === null ? el("p", { class: "bad" }, "Aborted transactions are not known: damage is in the way.") : null,
    found.aborted?.length ? [
      el("h2", {}, "Aborted transactions"),
      left(found.aborted_left_out, "aborted transactions"),
      table([
        { heading: "Producer", number: true, sort: (row) => row.producer_id, cell: (row) => String(row.producer_id) },
        { heading: "First offset", number: true, sort: (row) => row.first_offset,
          cell: (row) => el("a", { href: linkOf(row.first_offset) }, count(row.first_offset)) },
        { heading: "Marker", number: true, sort: (row) => row.marker_offset, cell: (row) => count(row.marker_offset) },
      ], found.aborted, "Aborted transactions")] : null,
  ]];
}
