import { timeline } from "./api.js";
import { compact, count } from "./format.js";
import { Component, html } from "./html.js";
import { Plot } from "./plots.js";

const ranges = { "1m": "minute", "1h": "hour", "1d": "day" };
/** How often each is looked at again: no slot of it moves sooner. */
const every = { "1m": 1_000, "1h": 5_000, "1d": 30_000 };

/** What becomes due in the next minute, hour or day. */
export class Timeline extends Component {
  state = { range: "1m", due: null };

  componentDidMount() {
    this.load();
  }

  componentWillUnmount() {
    this.stop();
  }

  stop() {
    clearTimeout(this.timer);
    this.controller?.abort();
  }

  async load() {
    this.stop();
    const controller = new AbortController();
    this.controller = controller;
    const { range } = this.state;
    try {
      if (!document.hidden) {
        const due = await timeline(range, controller.signal);
        this.setState({ due: { ...due, times: timesOf(due) } });
      }
    } catch {
      // the next look is not far; that the bridge is away is said elsewhere
    }
    if (!controller.signal.aborted) {
      this.timer = setTimeout(() => this.load(), every[range]);
    }
  }

  choose = (range) => this.setState({ range }, () => this.load());

  render(_, { range, due }) {
    return html`<div class="timeline">
      <div class="choices" role="group" aria-label="Becomes due in the next">
        ${Object.entries(ranges).map(([key, word]) => html`
          <button type="button" key=${key} aria-pressed=${String(key === range)} onClick=${() => this.choose(key)}>${word}</button>`)}
      </div>
      ${due ? html`
        <${Plot} bars title=${`Due in the next ${ranges[range]}`} times=${due.times}
          summary=${`${sum(due.counts)} jobs, ${due.overdue} overdue, ${due.later} later`} step=${due.step_s} write=${compact} series=${[{ label: "due", colour: "--in", values: due.counts }]} />
        <p class="beside">
          ${count(sum(due.counts))} due · ${due.overdue ? html`<b class="warn">▲ ${count(due.overdue)} overdue</b>` : "none overdue"}
          ${" "}· ${count(due.later)} later
        </p>`
      : html`<p class="blank">Loading…</p>`}
    </div>`;
  }
}

const sum = (values) => values.reduce((a, b) => a + b, 0);

const timesOf = ({ from, step_s: step, counts }) => counts.map((_, i) => Date.parse(from) / 1000 + i * step);
