import { Component, createRef, html } from "./html.js";

/** uPlot is published as a plain script: the page loads it before its modules. */
const { uPlot } = globalThis;

const dark = matchMedia("(prefers-color-scheme: dark)");
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

const axis = (more) => ({
  stroke: () => colour("--muted"), font: "11px system-ui, sans-serif",
  grid: { stroke: () => colour("--line"), width: 1 }, ticks: { show: false }, ...more,
});

/** Times of day, or hours and minutes alone where the slots are no shorter. */
const timeAxis = (step) => axis({
  size: 26, values: (_, splits) => splits.map((s) => {
    const at = new Date(s * 1000);
    const minutes = `${String(at.getHours()).padStart(2, "0")}:${String(at.getMinutes()).padStart(2, "0")}`;
    return step < 60 ? `${minutes}:${String(at.getSeconds()).padStart(2, "0")}` : minutes;
  }),
  space: step < 60 ? 64 : 50,
});

/** A value between two gaps would be a line without length: it is shown as a point. */
const lone = (u, series) => {
  const values = u.data[series];
  return values.flatMap((v, i) => (v != null && values[i - 1] == null && values[i + 1] == null ? [i] : []));
};

function optionsOf({ series, step, write, bars, height = 140 }, width) {
  const paths = bars ? uPlot.paths.bars({ size: [0.8, 40], align: 1 }) : undefined;
  return {
    width, height,
    legend: { live: true },
    cursor: { y: false, points: { size: 5 } },
    scales: { x: { time: true }, y: { range: (_, __, max) => [0, max > 0 ? max * 1.1 : 1] } },
    axes: [timeAxis(step), axis({ size: 56, values: (_, splits) => splits.map(write), space: 28 })],
    series: [
      { label: "at", value: (_, at) => (at == null ? "–" : new Date(at * 1000).toLocaleTimeString("en-GB")) },
      ...series.map((s) => ({
        label: s.label, stroke: () => colour(s.colour), dash: s.dash, width: bars ? 0 : 1.5, paths,
        points: { show: !bars, size: 4, filter: lone },
        fill: bars ? () => colour(s.colour) : undefined, value: (_, v) => (v == null ? "–" : write(v)),
      })),
    ],
  };
}

/**
 * A plot over time. Props: title, summary (what it shows, in words), times (in seconds, one a slot), step (of a slot,
 * in seconds), series [{label, colour (a custom property), dash, values}], write (a value as text), bars, height.
 */
export class Plot extends Component {
  holder = createRef();

  componentDidMount() {
    const holder = this.holder.current;
    this.resized = new ResizeObserver(() => this.fit());
    this.resized.observe(holder);
    dark.addEventListener("change", this.repaint);
    this.draw();
  }

  componentDidUpdate(before) {
    if (before.step !== this.props.step || before.series.length !== this.props.series.length) {
      this.plot.destroy();
      this.draw();
    } else if (before.times !== this.props.times) {
      this.plot.setData(this.data());
    }
  }

  componentWillUnmount() {
    this.resized.disconnect();
    dark.removeEventListener("change", this.repaint);
    this.plot.destroy();
  }

  repaint = () => this.plot.redraw();

  data = () => [this.props.times, ...this.props.series.map((s) => s.values)];

  draw() {
    this.plot = new uPlot(optionsOf(this.props, this.width()), this.data(), this.holder.current);
  }

  fit() {
    if (this.plot.width !== this.width()) {
      this.plot.setSize({ width: this.width(), height: this.plot.height });
    }
  }

  width = () => Math.max(this.holder.current.clientWidth, 120);

  render({ title, summary }) {
    return html`<figure class="plot" role="img" aria-label=${`${title}: ${summary}`}>
      <figcaption>${title}</figcaption>
      <div ref=${this.holder}></div>
    </figure>`;
  }
}
