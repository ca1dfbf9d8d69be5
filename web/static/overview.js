import { ask, path } from "/static/api.js";
import { sparkline } from "/static/charts.js";
import { el, facts, shown, table } from "/static/dom.js";
import { bytes, count, time } from "/static/format.js";

const AT_A_TIME = 2;

// Cells with the records of topics by time, which are asked for when their rows are in sight.
class Sparklines {
  constructor(signal) {
    this.signal = signal;
    this.made = new Map();
    this.waiting = new Map();
    this.running = 0;
  }

  cell(topic) {
    const cell = el("span", { class: "spark-cell" }, this.made.get(topic) ?? "");
    if (!this.made.has(topic)) {
      this.waiting.set(topic, cell);
      setTimeout(() => this.next());
    }
    return cell;
  }

  async next() {
    if (this.running >= AT_A_TIME || this.signal.aborted || !this.waiting.size) return;
    const [topic, cell] = this.waiting.entries().next().value;
    this.waiting.delete(topic);
    if (cell.isConnected) {
      this.running += 1;
      try {
        const { bars } = await ask(`/api/topics/${encodeURIComponent(topic)}/histogram?bars=24`, this.signal);
        this.made.set(topic, bars.length ? sparkline(bars) : el("span", { class: "muted" }, "no times"));
      } catch (error) {
        if (error.name === "AbortError") return;
        this.made.set(topic, el("span", { class: "bad" }, "?"));
      } finally {
        this.running -= 1;
      }
      (this.waiting.get(topic) ?? cell).replaceChildren(this.made.get(topic));
      this.waiting.delete(topic);
    }
    this.next();
  }
}

export async function overview({ signal }) {
  const found = await ask("/api/overview", signal);
  const own = found.topics.filter((each) => !each.is_internal);
  const sum = (name) => found.topics.reduce((total, each) => total + each[name], 0);
  const rows = [...own, ...found.topics.filter((each) => each.is_internal)];
  const sparklines = new Sparklines(signal);
  const box = table([
    { heading: "Topic", sort: (row) => row.topic, cell: (row) => el("a", { href: path("topics", row.topic) }, shown(row.topic)) },
    { heading: "Partitions", number: true, sort: (row) => row.partitions, cell: (row) => count(row.partitions) },
    { heading: "Records, at most", number: true, sort: (row) => row.offsets, cell: (row) => count(row.offsets) },
    { heading: "Size", number: true, sort: (row) => row.size_bytes, cell: (row) => bytes(row.size_bytes) },
    { heading: "Segments", number: true, sort: (row) => row.segments, cell: (row) => count(row.segments) },
    { heading: "Records by time", cell: (row) => sparklines.cell(row.topic) },
    { heading: "Newest record", sort: (row) => row.latest_ms, cell: (row) => time(row.latest_ms) },
    { heading: "Health", sort: (row) => row.unreadable, cell: (row) => row.unreadable
      ? el("span", { class: "bad" }, `${count(row.unreadable)} unreadable`) : row.is_internal ? "internal" : "" },
  ], rows, "Topics");
  const filter = el("input", { type: "search", autocomplete: "off", oninput: () => {
    const words = filter.value.toLowerCase();
    box.show(rows.filter((row) => row.topic.toLowerCase().includes(words)));
  } });
  return ["Topics", [
    el("p", { class: "muted" }, shown(found.directory)),
    facts([
      ["topics", own.length === rows.length ? count(rows.length) : `${count(own.length)} and ${count(rows.length - own.length)} internal`],
      ["partitions", count(sum("partitions"))],
      ["size", bytes(sum("size_bytes"))],
      ["segments", count(sum("segments"))],
    ]),
    found.left_out.map((each) => el("p", { class: "bad" }, "left out: ", shown(each))),
    el("form", { onsubmit: (event) => event.preventDefault() }, el("label", {}, "Name contains", filter)),
    box,
  ]];
}
