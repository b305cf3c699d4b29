import { duration } from "./format.js";
import { html } from "./html.js";

/** From when on a topic counts as late. */
const lateMs = 1000;
const waitsLong = 5;

/**
 * What there is to say about a topic.
 * @param {object} t an entry of the stream's topics
 * @returns {{tone: string, sign: string, text: string}[]} the gravest first; tone is bad, warn or calm
 */
export function conditions(t) {
  const all = [];
  if (t.ready > 0 && t.listening === false && !t.paused) {
    all.push({ tone: "bad", sign: "✕", text: "nobody listens" });
  }
  if (t.late_p99_ms > lateMs) {
    all.push({ tone: "warn", sign: "▲", text: "late" });
  }
  if (t.oldest_ready_s > waitsLong && !t.paused) {
    all.push({ tone: "warn", sign: "▲", text: `waits ${duration(Math.floor(t.oldest_ready_s))}` });
  }
  if (t.paused) {
    all.push({ tone: "warn", sign: "‖", text: "paused" });
  }
  return all;
}

const heard = (listening) => ({ true: "listening", false: "no listener", null: "listening not known" })[String(listening)];

/** A topic's condition in words. Props: topic (an entry of the stream's topics). */
export function Condition({ topic }) {
  const all = conditions(topic);
  if (!all.some(({ text }) => text === "nobody listens")) {
    all.push({ tone: "calm", sign: topic.listening ? "●" : "○", text: heard(topic.listening) });
  }
  return html`<span class="conditions">${all.map(({ tone, sign, text }) => html`
    <span key=${text} class=${`badge ${tone}`}><span aria-hidden="true">${sign}</span> ${text}</span>`)}</span>`;
}
