// Pictures in SVG, to scale. What can be clicked is a link with a label.
import { el, plain, svg } from "/static/dom.js";
import { after, before, bytes, count, local, utc } from "/static/format.js";

const WIDTH = 960;

// Bars of offsets by time; a link for each bar, a zoom for a range that is drawn with the pointer.
export function timeChart(bars, linkOf, zoom) {
  const height = 150;
  const top = Math.max(...bars.map((bar) => bar.offsets), 1);
  const step = WIDTH / bars.length;
  const brush = svg("rect", { class: "brush", y: 0, height, width: 0 });
  const chart = svg("svg", { class: "chart", viewBox: `0 0 ${WIDTH} ${height + 18}`, role: "group", "aria-label": "Records by time" },
    bars.map((bar, number) => {
      const size = bar.offsets ? Math.max((bar.offsets / top) * (height - 20), 1) : 0;
      const label = `${count(bar.offsets)} records, about ${bytes(bar.size_bytes)}, from ${local(bar.start_ms)} to ${local(bar.stop_ms)}`;
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

// The numbers of a chart, for those who do not see it. rows: arrays of what cells show.
export function asTable(headings, rows) {
  const body = el("tbody");
  const box = el("details", { class: "as-table", ontoggle: () => {
    if (box.open && !body.firstChild) body.append(...rows.map((row) => el("tr", {}, row.map((cell) => el("td", {}, cell)))));
  } }, el("summary", {}, "As a table"), el("div", { class: "scroll tall", tabindex: 0, role: "region", "aria-label": "Numbers of the chart" },
    el("table", {}, el("thead", {}, el("tr", {}, headings.map((each) => el("th", { scope: "col" }, each)))), body)));
  return box;
}

// Bars without axes, for a cell of a table.
export function sparkline(bars) {
  const [width, height] = [120, 22];
  const top = Math.max(...bars.map((bar) => bar.offsets), 1);
  const step = Math.min(width / bars.length, 5);
  const sum = (name) => bars.reduce((total, bar) => total + bar[name], 0);
  const label = `Records by time: ${count(sum("offsets"))}, about ${bytes(sum("size_bytes"))}, from ${local(bars[0].start_ms)} to ` +
    `${local(bars.at(-1).stop_ms)}; at most ${count(top)} in one of ${bars.length} parts`;
  return svg("svg", { class: "spark", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label }, svg("title", {}, label),
    bars.map((bar, number) => {
      const size = bar.offsets ? Math.max((bar.offsets / top) * (height - 2), 1) : 0;
      return svg("rect", { class: "bar", x: number * step, y: height - size, width: Math.max(step - 1, 0.5), height: size });
    }),
    svg("line", { class: "base", x1: 0, x2: width, y1: height - 0.5, y2: height - 0.5 }));
}

const TICKS = 4;

// Values at places on an axis, as a line with gaps where a value is null. points: {x, y}; shownX, shownY: to texts.
export function lineChart(label, points, shownX, shownY) {
  const [height, left, right, top, below] = [170, 8, 8, 14, 18];
  const known = points.filter((point) => point.y !== null);
  if (!known.length) return el("p", { class: "muted" }, `${label}: not known.`);
  const [firstX, lastX] = [points[0].x, points.at(-1).x];
  const low = Math.min(0, ...known.map((point) => point.y));
  const high = Math.max(...known.map((point) => point.y), low + 1e-9);
  const x = (value) => left + (lastX === firstX ? 0.5 : (value - firstX) / (lastX - firstX)) * (WIDTH - left - right);
  const y = (value) => top + (1 - (value - low) / (high - low || 1)) * (height - top);
  const runs = [[]];
  for (const point of points) {
    if (point.y === null) runs.push([]);
    else runs.at(-1).push(point);
  }
  const step = (WIDTH - left - right) / points.length;
  return svg("svg", { class: "chart", viewBox: `0 0 ${WIDTH} ${height + below}`, role: "img", "aria-label":
    `${label}: from ${shownX(firstX)} to ${shownX(lastX)}, at most ${shownY(high)}, at last ${points.at(-1).y === null ? "?" : shownY(points.at(-1).y)}` },
    [...Array(TICKS).keys()].slice(1).map((number) => svg("line", { class: "grid", x1: 0, x2: WIDTH,
      y1: y(low + ((high - low) * number) / TICKS), y2: y(low + ((high - low) * number) / TICKS) })),
    runs.filter((run) => run.length).map((run) => [
      svg("polygon", { class: "area", points: [`${x(run[0].x)},${y(low)}`, ...run.map((each) => `${x(each.x)},${y(each.y)}`), `${x(run.at(-1).x)},${y(low)}`].join(" ") }),
      run.length > 1 ? svg("polyline", { class: "line", points: run.map((each) => `${x(each.x)},${y(each.y)}`).join(" ") })
        : svg("circle", { class: "bar", cx: x(run[0].x), cy: y(run[0].y), r: 3 })]),
    points.map((point) => svg("rect", { class: "hit", x: x(point.x) - step / 2, y: 0, width: step, height },
      svg("title", {}, `${shownX(point.x)}: ${point.y === null ? "?" : shownY(point.y)}`))),
    svg("text", { x: 2, y: 11 }, shownY(high)),
    svg("text", { x: 2, y: height + 14 }, shownX(firstX)),
    svg("text", { x: WIDTH - 2, y: height + 14, "text-anchor": "end" }, shownX(lastX)));
}

// A bar for each of some names. rows: {name, value}
export function barChart(label, rows) {
  const [line, labels] = [22, 260];
  const values = rows.map((row) => row.value ?? 0);
  const low = Math.min(0, ...values);
  const high = Math.max(0, ...values);
  const x = (value) => labels + ((value - low) / (high - low || 1)) * (WIDTH - labels - 110);
  return svg("svg", { class: "chart", viewBox: `0 0 ${WIDTH} ${rows.length * line + 6}`, role: "img",
    "aria-label": `${label}: ${rows.length} bars, at most ${count(high)}` },
    rows.map((row, number) => {
      const [whole, value] = [plain(row.name.slice(0, 200)), row.value ?? 0];
      const name = whole.length > 40 ? `${whole.slice(0, 39)}…` : whole;
      const shown = row.value === null ? "null" : count(row.value);
      return svg("g", {}, svg("title", {}, `${whole}: ${shown}`),
        svg("text", { x: labels - 8, y: number * line + 18, "text-anchor": "end" }, name),
        svg("rect", { class: "bar", x: Math.min(x(value), x(0)), y: number * line + 6, width: Math.max(Math.abs(x(value) - x(0)), 1), height: line - 6 }),
        svg("text", { x: Math.max(x(value), x(0)) + 6, y: number * line + 18 }, shown));
    }));
}

// The segments of a partition over its offsets; the height is that of their bytes.
export function segmentMap(found, linkOf) {
  const [height, below] = [120, 34];
  const segments = found.segments;
  const first = Number(segments[0].base_offset);
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
      const times = each.first_ms === null && each.latest_ms === null ? "" : `, ${local(each.first_ms)} to ${local(each.latest_ms)}`;
      const label = `offsets ${each.base_offset} to ${before(reached)}, ${bytes(each.size_bytes)}${times}${density}`;
      return [
        svg("a", { href: linkOf(each.base_offset), "aria-label": `Segment: ${label}` }, svg("title", {}, label),
          svg("rect", { class: "hit", x: x(each.base_offset), y: 0, width: Math.max(x(reached) - x(each.base_offset), 2), height }),
          svg("rect", { class: "bar", x: x(each.base_offset), y: height - size,
            width: Math.max(x(reached) - x(each.base_offset) - 1, 1), height: size })),
        each.missing_behind ? band(reached, reached + each.missing_behind, { class: "gap", y: 0, height },
          `a gap: offsets ${reached} to ${reached + each.missing_behind - 1}`) : null,
      ];
    }),
    (found.aborted ?? []).map((each) => band(each.first_offset, after(each.marker_offset), { class: "abort", y: height + 2, height: 5 },
      `aborted transaction of producer ${each.producer_id}: offsets ${each.first_offset} to ${each.marker_offset}`)),
    found.damage.filter((each) => each.offset !== null).map((each) => band(each.offset, after(each.offset),
      { class: "damage", y: height + 9, height: 6 }, `damage at offset ${each.offset}: ${each.reason}`)),
    found.compaction ? band(found.compaction.first_dirty_offset ?? first, found.compaction.first_uncleanable_offset ?? end,
      { class: "gap", y: height + 2, height: 3 }, "not compacted yet") : null,
    line(found.start_offset, `log start: ${found.start_offset}`),
    line(found.last_stable_offset, `last stable offset: ${found.last_stable_offset}`),
    svg("text", { x: 2, y: height + below - 4 }, String(first)),
    svg("text", { x: WIDTH - 2, y: height + below - 4, "text-anchor": "end" }, String(end)));
}
