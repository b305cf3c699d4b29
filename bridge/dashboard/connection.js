import { reasons } from "./health.js";
import { Component, html } from "./html.js";

const words = {
  connecting: { sign: "○", text: "connecting", tone: "calm" },
  open: { sign: "●", text: "live", tone: "good" },
  lost: { sign: "✕", text: "not live", tone: "bad" },
  refused: { sign: "✕", text: "refused", tone: "bad" },
};

/** Says in a word whether the figures are those of now. Props: link. */
export function Connection({ link }) {
  const { sign, text, tone } = words[link.state];
  return html`<span class=${`badge ${tone}`} id="connection" role="status"><span aria-hidden="true">${sign}</span> ${text}</span>`;
}

/** Says what is wrong with the stream. Props: link, event, onAgain. */
export class Trouble extends Component {
  state = { now: Date.now() };

  componentDidMount() {
    this.timer = setInterval(() => this.props.link.state === "lost" && this.setState({ now: Date.now() }), 1000);
  }

  componentWillUnmount() {
    clearInterval(this.timer);
  }

  render({ link, event, onAgain }, { now }) {
    const open = link.state === "open";
    return html`<div class="trouble" aria-live="polite">
      ${link.state === "lost" && html`<div class="banner bad">
        <span><b>✕ The stream is lost:</b> ${link.message}. The figures below are old.</span>
        <span aria-live="off">Next try in ${Math.max(0, Math.ceil((link.at - now) / 1000))} s</span>
        <button type="button" onClick=${onAgain}>Try now</button>
      </div>`}
      ${link.state === "refused" && link.code !== 401 && html`<div class="banner bad">
        <span><b>✕ Refused:</b> ${link.message}</span>
        <button type="button" onClick=${onAgain}>Try again</button>
      </div>`}
      ${open && event?.error && html`<div class="banner warn">
        <span><b>▲ Not all could be read:</b> ${event.error}. Older figures stay.</span>
      </div>`}
      ${open && event?.health?.ready === false && html`<div class="banner bad">
        <span><b>✕ Not ready:</b> ${reasons(event).join("; ")}</span>
      </div>`}
    </div>`;
  }
}
