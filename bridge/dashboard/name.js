import { Component, html } from "./html.js";
import { cut } from "./format.js";

/** An id or a topic that links to its page, cut in the middle where it is long. Props: text, href, most. */
export function Name({ text, href, most }) {
  return html`<a class="name" href=${href} title=${text}><bdi>${cut(text, most)}</bdi></a>`;
}

const saysFor = 2_000;

/** Puts a text into the clipboard, and gives whether that could be done. */
async function copied(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return copiedByHand(text);
  }
}

/** The old way: over HTTP from another machine there is no other. */
function copiedByHand(text) {
  const focused = document.activeElement;
  const field = document.createElement("textarea");
  field.value = text;
  document.body.append(field);
  field.select();
  const done = document.execCommand("copy");
  field.remove();
  focused.focus();
  return done;
}

/** Copies a text to the clipboard. Props: text, what (its name for those who hear the page). */
export class Copy extends Component {
  state = { said: "" };

  componentWillUnmount() {
    clearTimeout(this.timer);
  }

  copy = async () => {
    const done = await copied(this.props.text);
    this.setState({ said: done ? "Copied" : "Not allowed here" });
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.setState({ said: "" }), saysFor);
  };

  render({ what }, { said }) {
    return html`<button type="button" class="small" aria-label=${`Copy ${what}`} onClick=${this.copy}>
      <span aria-live="polite">${said || "Copy"}</span>
    </button>`;
  }
}
