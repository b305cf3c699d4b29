import { html } from "./html.js";
import { goQuery } from "./router.js";
import { SearchBox } from "./searchbox.js";

const pause = 300;

/**
 * The patterns of NATS that a filter's text stands for: what has a wildcard is one, and plain text is that topic and
 * all below it.
 * @param {string} text
 * @returns {string[]}
 */
export function patternsOf(text) {
  const plain = text.trim().replace(/\.+$/, "");
  if (plain === "") {
    return [];
  }
  return /[*>]/.test(plain) ? [plain] : [`${plain}.>`, plain];
}

const help = html`<code>mail</code> and all below it; <code>*</code> is one token, <code>${">"}</code> all that follow`;

/** The box that filters topics. It follows the typing. Props: text. */
export function Filter({ text }) {
  const typed = (match) => match !== text && goQuery({ match, cursor: "" }, { replace: true });
  return html`<${SearchBox} label="Filter" text=${text} placeholder="mail, mail.*, *.eu.>" help=${help} pause=${pause} onText=${typed} />`;
}
