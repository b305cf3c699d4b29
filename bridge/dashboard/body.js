import { bytes } from "./format.js";
import { Component, html } from "./html.js";
import { indent, sliceOf } from "./json.js";
import { Copy } from "./name.js";

/** More than this is shown only when asked for: a browser is slow with a text of a megabyte. */
const shownAtFirst = 50_000;

/**
 * A job's body as text, and what kind of text it is.
 * @param {object} job as get gives it
 * @param {string} envelope the answer as it came
 * @returns {{kind: string, text: string}}
 */
export function bodyOf(job, envelope) {
  if (job.body_bytes > 0) {
    return { kind: `${bytes(job.body_bytes)}, too large to be shown`, text: "" };
  }
  if (job.body_base64 !== undefined) {
    return rawOf(job.body_base64);
  }
  const text = sliceOf(envelope, ["data", "body"]);
  return text === undefined ? { kind: "empty", text: "" } : { kind: "JSON", text: indent(text) };
}

function rawOf(base64) {
  const data = Uint8Array.from(atob(base64), (c) => c.charCodeAt(0));
  const size = bytes(data.length);
  try {
    const text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(data);
    if (!/[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]/.test(text)) {
      return { kind: `text, ${size}`, text };
    }
  } catch {
    // not UTF-8
  }
  return { kind: `${size} that are no text, in base64`, text: base64 };
}

/** Shows a body. Props: kind, text. */
export class Body extends Component {
  state = { whole: false };

  render({ kind, text }, { whole }) {
    const cut = text.length > shownAtFirst && !whole;
    return html`<section class="panel" aria-labelledby="body">
      <h2 id="body">Body <small>${kind}</small> ${text && html`<${Copy} text=${text} what="the body" />`}</h2>
      ${text && html`<pre class="body" tabindex="0" aria-labelledby="body">${cut ? text.slice(0, shownAtFirst) : text}</pre>`}
      ${cut && html`<button type="button" onClick=${() => this.setState({ whole: true })}>Show all of it</button>`}
    </section>`;
  }
}
