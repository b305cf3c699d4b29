import { current, goQuery } from "./router.js";
import { html } from "./html.js";

/** Goes to the next page of a listing. The way back is kept with the address. */
function nextPage(cursor) {
  const { query, trail } = current();
  goQuery({ cursor }, { trail: [...trail, query.cursor ?? ""] });
}

/** Goes to the page before this one, or to the first where the way back is not known. */
function previousPage() {
  const { trail } = current();
  goQuery({ cursor: trail.at(-1) ?? "" }, { trail: trail.slice(0, -1) });
}

/** The buttons below a listing. Props: route, cursor (of the next page, empty on the last), what. */
export function Pager({ route, cursor, what }) {
  const first = !route.query.cursor;
  if (first && !cursor) {
    return null;
  }
  const page = first ? "Page 1" : route.trail.length ? `Page ${route.trail.length + 1}` : "A later page";
  return html`<nav class="pager" aria-label=${`Pages of ${what}`}>
    <button type="button" disabled=${first} onClick=${() => goQuery({ cursor: "" })}>First</button>
    <button type="button" id="previous" disabled=${first} onClick=${previousPage}>Previous</button>
    <span>${page}</span>
    <button type="button" id="next" disabled=${!cursor} onClick=${() => nextPage(cursor)}>Next</button>
  </nav>`;
}
