// How figures and moments are written.

const whole = new Intl.NumberFormat("en");
const short = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });
const none = "–";

/** A count, in full. */
export const count = (n) => (n == null ? none : whole.format(n));

/** A count in little space. */
export const compact = (n) => (n == null ? none : short.format(n));

/** A count in the space of five digits. */
export const figure = (n) => (n >= 100_000 ? compact(n) : count(n));

/** "1 job", "2 jobs". */
export const jobs = (n) => `${whole.format(n)} ${n === 1 ? "job" : "jobs"}`;

/** A rate in jobs a second. */
export function rate(n) {
  if (n == null) {
    return none;
  }
  return n === 0 ? "0" : n < 0.1 ? "<0.1" : n < 100 ? n.toFixed(1) : compact(n);
}

/** A length of time in milliseconds. */
export function milliseconds(ms) {
  if (ms == null) {
    return none;
  }
  return ms < 1000 ? `${ms < 10 ? Number(ms.toFixed(1)) : Math.round(ms)} ms` : duration(ms / 1000);
}

/** A length of time in seconds, in its two largest units. */
export function duration(seconds) {
  const units = [["d", 86400], ["h", 3600], ["min", 60]];
  for (const [i, [unit, size]] of units.entries()) {
    if (seconds >= size) {
      const [next, nextSize] = units[i + 1] ?? ["s", 1];
      const rest = Math.floor((seconds % size) / nextSize);
      return `${whole.format(Math.floor(seconds / size))} ${unit}${rest ? ` ${rest} ${next}` : ""}`;
    }
  }
  return `${seconds < 10 ? Number(seconds.toFixed(seconds < 1 ? 3 : 1)) : Math.round(seconds)} s`;
}

/** A number of bytes. */
export function bytes(n) {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let i = 0;
  for (; n >= 1000 && i < units.length - 1; i++) {
    n /= 1000;
  }
  return `${i === 0 || n >= 100 ? Math.round(n) : n.toFixed(1)} ${units[i]}`;
}

/** A moment as the clock on the wall says it. */
export function moment(text) {
  const at = new Date(text);
  const pad = (n, width = 2) => String(n).padStart(width, "0");
  return `${at.getFullYear()}-${pad(at.getMonth() + 1)}-${pad(at.getDate())} ${clock(at)}.${pad(at.getMilliseconds(), 3)}`;
}

/** The time of day. */
export function clock(at) {
  return [at.getHours(), at.getMinutes(), at.getSeconds()].map((n) => String(n).padStart(2, "0")).join(":");
}

/**
 * How far a moment is from now: "in 5 s", "2 h ago".
 * @param {string} text the moment
 * @param {number} now in milliseconds, by the bridge's clock
 */
export function relative(text, now) {
  const seconds = (Date.parse(text) - now) / 1000;
  const length = duration(Math.abs(seconds) < 1 ? 0 : Math.floor(Math.abs(seconds)));
  if (Math.abs(seconds) < 1) {
    return "now";
  }
  return seconds > 0 ? `in ${length}` : `${length} ago`;
}

/**
 * A name in little space: what tells long names apart is often at their end, so they are cut in the middle.
 * @param {string} text
 * @param {number} most how many characters may stay
 */
export function cut(text, most = 40) {
  const characters = [...text];
  if (characters.length <= most) {
    return text;
  }
  const tail = Math.floor((most - 1) / 2);
  return `${characters.slice(0, most - 1 - tail).join("")}…${characters.slice(-tail).join("")}`;
}
