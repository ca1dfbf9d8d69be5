// Values as texts for people. null is a number that is not known.
import { el } from "/static/dom.js";

const NUMBER = new Intl.NumberFormat("en");
const LOCAL = new Intl.DateTimeFormat("sv", {  // the form of ISO 8601
  year: "numeric", month: "2-digit", day: "2-digit", hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23",
});
const TIME_MAX = 8.64e15;

// The offsets beside one. The API sends an integer beyond 2^53 - 1 as text.
export function after(offset) {
  return typeof offset === "number" ? offset + 1 : String(BigInt(offset) + 1n);
}

export function before(offset) {
  return typeof offset === "number" ? offset - 1 : String(BigInt(offset) - 1n);
}

export function count(number) {
  return number === null ? "?" : NUMBER.format(number);
}

export function bytes(number) {
  if (number === null) return "?";
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let unit = 0;
  while (number >= 1024 && unit < units.length - 1) {
    number /= 1024;
    unit += 1;
  }
  return `${unit ? number.toFixed(1) : number} ${units[unit]}`;
}

export function seconds(number) {
  if (number === null) return "?";
  if (number < 0) return `-${seconds(-number)}`;
  for (const [unit, size] of [["d", 86400], ["h", 3600], ["m", 60]]) {
    if (number >= 2 * size) return `${(number / size).toFixed(1)} ${unit}`;
  }
  return `${number < 10 ? number.toFixed(1) : Math.round(number)} s`;
}

export function utc(ms) {
  return ms === null || ms < 0 || ms > TIME_MAX ? "?" : new Date(ms).toISOString();
}

// In the zone of the reader; UTC when pointed at.
export function time(ms) {
  if (ms === null) return "?";
  if (ms < 0 || ms > TIME_MAX) return `${ms} ms`;
  return el("time", { datetime: utc(ms), title: utc(ms) }, local(ms));
}

export const ZONE = Intl.DateTimeFormat().resolvedOptions().timeZone;

export function local(ms) {
  if (ms === null || ms < 0 || ms > TIME_MAX) return "?";
  return LOCAL.format(new Date(ms)) + (ms % 1000 ? `.${String(ms % 1000).padStart(3, "0")}` : "");
}

export function measured(value, kind) {
  if (value === null) return "?";
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (typeof value === "string") return value;
  switch (kind) {
    case "bytes": return bytes(value);
    case "time": return time(value);
    case "seconds": return seconds(value);
    case "share": return `${(100 * value).toFixed(1)} %`;
    case "ratio": return value.toFixed(2);
    case "per second": return `${count(Math.round(value * 10) / 10)}/s`;
    case "offset": return String(value);
    default: return count(value);
  }
}
