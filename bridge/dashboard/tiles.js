import { html } from "./html.js";

/** Figures side by side. Props: tiles [{label, value, note, tone}]; tone is warn or bad, and never all that tells. */
export function Tiles({ tiles }) {
  return html`<dl class="tiles">
    ${tiles.map(({ label, value, note, tone }) => html`<div key=${label} class=${tone ?? ""}>
      <dt>${label}</dt><dd>${value}${note && html` <small>${note}</small>`}</dd>
    </div>`)}
  </dl>`;
}
