import { ask, path, query } from "/static/api.js";
import { asTable, timeChart } from "/static/charts.js";
import { el, facts, shown, svg, table } from "/static/dom.js";
import { bytes, count, time } from "/static/format.js";

// The chart of a topic or partition, below its own heading.
export async function byTime({ topic, partition, parameters, signal, go }) {
  const limits = { start_ms: parameters.get("start_ms"), stop_ms: parameters.get("stop_ms") };
  const found = await ask(`/api/topics/${encodeURIComponent(topic)}/histogram${query({ ...limits, partition })}`, signal);
  const notes = found.unseen.map((each) => el("p", { class: "bad" }, "left out: ", shown(each)));
  if (!found.bars.length) return [el("h2", {}, "Records by time"), el("p", { class: "muted" }, "No record has a time."), notes];
  const linkOf = (bar) => `/records${query({ topic, partition, from: new Date(bar.start_ms).toISOString() })}`;
  return [
    el("h2", {}, "Records by time"),
    timeChart(found.bars, linkOf, (start_ms, stop_ms) => go(location.pathname + query({ start_ms, stop_ms }))),
    el("p", { class: "muted" }, "A bar leads to its records; drag over some to zoom. ",
      limits.start_ms ? el("a", { href: location.pathname }, "Whole time") : null),
    asTable(["From", "Records", "Bytes, about"], found.bars.map((bar) => [time(bar.start_ms), count(bar.offsets), bytes(bar.size_bytes)])),
    notes,
  ];
}

export async function topic(context) {
  const [name] = context.values;
  const found = await ask(`/api${path("topics", name)}`, context.signal);
  const chart = await byTime({ ...context, topic: name });
  const sizes = found.partitions.map((each) => each.size_bytes ?? 0);
  const largest = Math.max(...sizes, 1);
  const mean = sizes.reduce((sum, each) => sum + each, 0) / sizes.length;
  const skew = (row) => {
    const label = `${bytes(row.size_bytes)} of at most ${bytes(largest)}`;
    return svg("svg", { class: "share", viewBox: "0 0 100 10", preserveAspectRatio: "none", role: "img", "aria-label": label },
      svg("title", {}, label), svg("rect", { class: "bar", width: (100 * (row.size_bytes ?? 0)) / largest, height: 10 }));
  };
  const known = found.partitions.every((each) => each.end_offset !== null);
  return [name, [
    facts([
      ["partitions", count(found.partitions.length)],
      ["records, at most", known ? count(found.partitions.reduce((sum, each) => sum + each.end_offset - each.start_offset, 0)) : "?"],
      ["size", bytes(sizes.reduce((sum, each) => sum + each, 0))],
      ["largest partition", mean ? `${(largest / mean).toFixed(2)} × the mean` : "?"],
    ]),
    el("p", { class: "actions" },
      el("a", { class: "button", href: `/records${query({ topic: name })}` }, "Newest records"),
      el("a", { class: "button", href: `/records${query({ topic: name, from: "1970-01-01" })}` }, "Oldest records")),
    chart,
    el("h2", {}, "Partitions"),
    table([
      { heading: "Partition", number: true, sort: (row) => row.partition,
        cell: (row) => el("a", { href: path("topics", name, row.partition), "aria-label": `Partition ${row.partition}` }, row.partition) },
      { heading: "Start", number: true, sort: (row) => row.start_offset, cell: (row) => count(row.start_offset) },
      { heading: "End", number: true, sort: (row) => row.end_offset, cell: (row) => count(row.end_offset) },
      { heading: "Size", number: true, sort: (row) => row.size_bytes, cell: (row) => bytes(row.size_bytes) },
      { heading: "Share", cell: skew },
      { heading: "Segments", number: true, sort: (row) => row.segments, cell: (row) => count(row.segments) },
      { heading: "Newest record", sort: (row) => row.latest_ms, cell: (row) => time(row.latest_ms) },
      { heading: "Health", sort: (row) => row.damaged, cell: (row) => row.error !== null
        ? el("span", { class: "bad" }, shown(row.error))
        : row.damaged ? el("span", { class: "bad" }, `${count(row.damaged)} damaged`) : row.remote_note ?? "" },
    ], found.partitions, `Partitions of ${name}`),
    el("h2", {}, "Settings"),
    table([
      { heading: "Name", sort: (row) => row.name, cell: (row) => el("code", {}, row.name) },
      { heading: "Value", cell: (row) => el("code", {}, shown(row.value)) },
      { heading: "Set by", sort: (row) => row.origin, cell: (row) => row.origin },
    ], [...found.settings].sort((one, other) => (one.origin === "default") - (other.origin === "default")), `Settings of ${name}`),
  ]];
}
