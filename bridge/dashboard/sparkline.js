import { html } from "./html.js";

const width = 84;
const height = 22;

/** The strokes of a line through values, broken where there are none. */
function strokes(values, most) {
  const x = (i) => ((i / (values.length - 1)) * width).toFixed(1);
  const y = (v) => (height - 1 - (v / most) * (height - 3)).toFixed(1);
  let broken = true;
  return values.map((v, i) => {
    const begins = broken;
    broken = v == null;
    return broken ? "" : `${begins ? "M" : "L"}${x(i)} ${y(v)}${begins ? "h1" : ""}`;
  }).join("");
}

/**
 * A plot of the size of a word. Props: lines [{values, kind}], label (what it shows, in words).
 */
export function Sparkline({ lines, label }) {
  const most = Math.max(...lines.flatMap(({ values }) => values), 0) || 1;
  return html`<svg class="spark" width=${width} height=${height} viewBox=${`0 0 ${width} ${height}`} role="img" aria-label=${label}>
    <title>${label}</title>
    ${lines.map(({ values, kind }) => html`<path key=${kind} class=${kind} d=${strokes(values, most)} />`)}
  </svg>`;
}
