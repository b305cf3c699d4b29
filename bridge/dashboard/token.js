// The bridge's token. It is kept for this tab alone, and goes with it.

import { Component, html } from "./html.js";
import { Dialog } from "./dialog.js";

const key = "dq-token";

/** The token that was given, or an empty string. */
export const token = () => sessionStorage.getItem(key) ?? "";

/** Keeps a token. */
const keepToken = (text) => sessionStorage.setItem(key, text);

/** Forgets the token. */
export const forgetToken = () => sessionStorage.removeItem(key);

/** The headers that show the token to the bridge. */
export function authorization() {
  const text = token();
  return text ? { Authorization: `Bearer ${text}` } : {};
}

/** Whether a header can carry a text. */
const sendable = (text) => /^[\x21-\x7e]+$/.test(text);

/** Asks for the token. Props: wrong (the one that was given was refused), onGiven. */
export class TokenDialog extends Component {
  state = { text: "", fault: "" };

  give = () => {
    const text = this.state.text.trim();
    if (!sendable(text)) {
      this.setState({ fault: "A token has letters, digits and signs, no white space." });
      return;
    }
    keepToken(text);
    this.props.onGiven();
  };

  render({ wrong }, { text, fault }) {
    const why = fault || (wrong ? "The bridge refused that token." : "");
    return html`<${Dialog} title="Token wanted" stays confirm="Open" onConfirm=${this.give}>
      <p>This bridge is guarded. Its token is the value of <code>DQ_HTTP_TOKEN</code> where it runs. It is kept in this tab only.</p>
      <label class="field">Token
        <input type="password" name="token" autocomplete="off" autofocus required value=${text}
          onInput=${(e) => this.setState({ text: e.target.value })} />
      </label>
      ${why && html`<p class="fault" role="alert">${why}</p>`}
    <//>`;
  }
}
