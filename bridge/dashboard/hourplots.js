import { milliseconds, rate } from "./format.js";
import { html } from "./html.js";
import { Hour, perSecond, slotsOf } from "./hours.js";
import { Plot } from "./plots.js";
import { Sparkline } from "./sparkline.js";

const most = (values) => values.reduce((a, b) => Math.max(a, b ?? 0), 0);
const rates = (hour) => `at most ${rate(most(perSecond(hour, "in")))} in and ${rate(most(perSecond(hour, "out")))} out a second`;
const lateness = (hour) => `at most ${milliseconds(most(hour.late_p99_ms))} (99th percentile)`;

/** The plots of the last hour of a topic, or of all. Props: hours, topic. */
export function HourPlots({ hours, topic = "" }) {
  return html`<${Hour} hours=${hours} topic=${topic} blank=${html`<p class="blank">Loading…</p>`} show=${(hour) => {
    if (!hour.kept) {
      return html`<p class="blank">The last hour of this topic is not kept: there are too many topics.</p>`;
    }
    const times = slotsOf(hour);
    return html`
      <${Plot} title="Jobs a second, last hour" summary=${rates(hour)} times=${times} step=${hour.step_s} write=${rate} series=${[
        { label: "in", colour: "--in", values: perSecond(hour, "in") },
        { label: "out", colour: "--out", dash: [6, 3], values: perSecond(hour, "out") },
        { label: "finished", colour: "--finished", dash: [2, 3], values: perSecond(hour, "finished") },
      ]} />
      <${Plot} title="Lateness, last hour" summary=${lateness(hour)} times=${times} step=${hour.step_s} write=${milliseconds} series=${[
        { label: "p50", colour: "--in", values: hour.late_p50_ms },
        { label: "p99", colour: "--late", dash: [6, 3], values: hour.late_p99_ms },
      ]} />`;
  }} />`;
}

/** The same, small. */
export function HourSparks({ hours, topic }) {
  return html`<${Hour} hours=${hours} topic=${topic} show=${(hour) => hour.kept && html`
    <${Sparkline} label=${`Last hour: ${rates(hour)}`} lines=${[
      { values: perSecond(hour, "in"), kind: "in" }, { values: perSecond(hour, "out"), kind: "out" },
    ]} />
    <${Sparkline} label=${`Lateness in the last hour: ${lateness(hour)}`} lines=${[
      { values: hour.late_p50_ms, kind: "in" }, { values: hour.late_p99_ms, kind: "late" },
    ]} />`} />`;
}
