// Pictures in SVG, to scale. What can be clicked is a link with a label.
import { svg } from "/static/dom.js";
import { bytes, count, local, utc } from "/static/format.js";

const WIDTH = 960;

// Bars of offsets by time; a link for each bar, a zoom for a range that is drawn with the pointer.
export function timeChart(bars, linkOf, zoom) {
  const height = 150;
  const top = Math.max(...bars.map((bar) => bar.offsets), 1);
  const step = WIDTH / bars.length;
  const brush = svg("rect", { class: "brush", y: 0, height, width: 0 });
  const chart = svg("svg", { class: "chart", viewBox: `0 0 ${WIDTH} ${height + 18}`, role: "group", "aria-label": "Records by time" },
    bars.map((bar, number) => {
      const size = bar.offsets ? Math.max((bar.offsets / top) * (height - 10), 1) : 0;
      const label = `${count(bar.offsets)} records from ${local(bar.start_ms)} to ${local(bar.stop_ms)}`;
      return svg("a", { href: linkOf(bar), "aria-label": label },
        svg("title", {}, label),
        svg("rect", { class: "hit", x: number * step, y: 0, width: step, height }),
        svg("rect", { class: "bar", x: number * step + 0.5, y: height - size, width: Math.max(step - 1, 0.5), height: size }));
    }),
    brush,
    svg("text", { x: 2, y: height + 14 }, svg("title", {}, utc(bars[0].start_ms)), local(bars[0].start_ms)),
    svg("text", { x: WIDTH - 2, y: height + 14, "text-anchor": "end" },
      svg("title", {}, utc(bars.at(-1).stop_ms)), local(bars.at(-1).stop_ms)),
    svg("text", { x: 2, y: 12 }, count(top)));
  let from = null;
  const at = (event) => {
    const area = chart.getBoundingClientRect();
    return Math.min(Math.max((event.clientX - area.left) / area.width, 0), 1) * WIDTH;
  };
  chart.addEventListener("pointerdown", (event) => { from = at(event); });
  chart.addEventListener("dragstart", (event) => event.preventDefault());
  chart.addEventListener("pointermove", (event) => {
    if (from === null || !event.buttons) return;
    const to = at(event);
    brush.setAttribute("x", Math.min(from, to));
    brush.setAttribute("width", Math.abs(to - from));
  });
  chart.addEventListener("click", (event) => {
    const [low, high] = [from, at(event)].sort((a, b) => a - b);
    from = null;
    brush.setAttribute("width", 0);
    if (low === null || high - low < 8) return;
    event.preventDefault();
    event.stopPropagation();
    const [first, last] = [bars[0].start_ms, bars.at(-1).stop_ms];
    const timeOf = (x) => Math.round(first + (x / WIDTH) * (last - first));
    zoom(timeOf(low), timeOf(high));
  }, true);
  return chart;
}

// The segments of a partition over its offsets; the height is that of their bytes.
export function segmentMap(found, linkOf) {
  const [height, below] = [120, 34];
  const segments = found.segments;
  const first = segments[0].base_offset;
  const end = Math.max(found.end_offset, first + 1);
  const x = (offset) => ((Math.min(Math.max(offset, first), end) - first) / (end - first)) * WIDTH;
  const largest = Math.max(...segments.map((each) => each.size_bytes), 1);
  const band = (from, to, attributes, label) => svg("rect", {
    ...attributes, x: x(from), width: Math.max(x(to) - x(from), 1.5) }, svg("title", {}, label));
  const line = (offset, label) => offset === null ? null : svg("g", {},
    svg("line", { class: "mark-line", x1: x(offset), x2: x(offset), y1: 0, y2: height }), svg("title", {}, label));
  return svg("svg", { class: "chart", viewBox: `0 0 ${WIDTH} ${height + below}`, role: "group", "aria-label": "Segments by offset" },
    segments.map((each, number) => {
      const stop = segments[number + 1]?.base_offset ?? end;
      const reached = each.end_offset ?? stop;
      const size = Math.max((each.size_bytes / largest) * (height - 14), 2);
      const density = each.index_entries ? `, an index entry each ${bytes(Math.round(each.size_bytes / each.index_entries))}` : "";
      const label = `offsets ${each.base_offset} to ${reached - 1}, ${bytes(each.size_bytes)}${density}`;
      return [
        svg("a", { href: linkOf(each.base_offset), "aria-label": `Segment: ${label}` }, svg("title", {}, label),
          svg("rect", { class: "hit", x: x(each.base_offset), y: 0, width: Math.max(x(reached) - x(each.base_offset), 2), height }),
          svg("rect", { class: "bar", x: x(each.base_offset), y: height - size,
            width: Math.max(x(reached) - x(each.base_offset) - 1, 1), height: size })),
        each.missing_behind ? band(reached, reached + each.missing_behind, { class: "gap", y: 0, height },
          `a gap: offsets ${reached} to ${reached + each.missing_behind - 1}`) : null,
      ];
    }),
    (found.aborted ?? []).map((each) => band(each.first_offset, each.marker_offset + 1, { class: "abort", y: height + 2, height: 5 },
      `aborted transaction of producer ${each.producer_id}: offsets ${each.first_offset} to ${each.marker_offset}`)),
    found.damage.filter((each) => each.offset !== null).map((each) => band(each.offset, each.offset + 1,
      { class: "damage", y: height + 9, height: 6 }, `damage at offset ${each.offset}: ${each.reason}`)),
    found.compaction ? band(found.compaction.first_dirty_offset ?? first, found.compaction.first_uncleanable_offset ?? end,
      { class: "gap", y: height + 2, height: 3 }, "not compacted yet") : null,
    line(found.start_offset, `log start: ${found.start_offset}`),
    line(found.last_stable_offset, `last stable offset: ${found.last_stable_offset}`),
    svg("text", { x: 2, y: height + below - 4 }, String(first)),
    svg("text", { x: WIDTH - 2, y: height + below - 4, "text-anchor": "end" }, String(end)));
}
