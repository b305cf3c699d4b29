import { html } from "./html.js";

/** How long a notice stays, in milliseconds. */
export const noticeStays = 8_000;

/** Tells what was done, also to those who hear the page. Props: text. */
export function Notices({ text }) {
  return html`<div class="notices" role="status" aria-live="polite">${text && html`<p>${text}</p>`}</div>`;
}
