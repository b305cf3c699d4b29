import { Dialog } from "./dialog.js";
import { html } from "./html.js";

const keys = [
  ["/", "find a job by its id"],
  ["f", "filter this list"],
  ["t", "topics"],
  ["j", "jobs"],
  ["d", "dead letters"],
  ["n", "next page"],
  ["p", "previous page"],
  ["?", "this list"],
  ["Esc", "close a dialog, leave a field"],
];

/**
 * Listens for keys outside of fields and dialogs.
 * @param {Object<string, () => void>} actions by key
 */
export function onKeys(actions) {
  addEventListener("keydown", (event) => {
    const field = event.target.closest("input, select, textarea");
    if (event.key === "Escape" && field && !field.closest("dialog")) {
      field.blur();
      return;
    }
    const action = Object.hasOwn(actions, event.key) ? actions[event.key] : undefined;
    if (!action || field || event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) {
      return;
    }
    event.preventDefault();
    action();
  });
}

/** Lists the keys. */
export function KeysDialog({ onClose }) {
  return html`<${Dialog} title="Keys" onClose=${onClose}>
    <dl class="keys">
      ${keys.map(([key, what]) => html`<div key=${key}><dt><kbd>${key}</kbd></dt><dd>${what}</dd></div>`)}
    </dl>
  <//>`;
}
