import { compact } from "./format.js";
import { html } from "./html.js";
import { stateName, states } from "./jobtable.js";
import { goQuery } from "./router.js";

/** Chooses a state. Props: state (the chosen one), counts (by state, may be left out). */
export function States({ state, counts }) {
  return html`<div class="choices" role="group" aria-label="State">
    ${Object.keys(states).map((key) => html`<button type="button" key=${key} id=${`state-${key}`} aria-pressed=${String(key === state)}
      onClick=${() => goQuery({ state: key, cursor: "" })}>
      ${stateName(key)}${counts && html` <small>${compact(counts[key])}</small>`}</button>`)}
  </div>`;
}
