import { Component, html } from "./html.js";

/**
 * A field that narrows a list. Props: label, text, placeholder, help, pause (follows the typing after so many
 * milliseconds; without it, Enter is waited for), onText.
 */
export class SearchBox extends Component {
  state = { given: "", text: "" };

  static getDerivedStateFromProps({ text }, { given }) {
    return text === given ? null : { given: text, text };
  }

  componentWillUnmount() {
    clearTimeout(this.timer);
  }

  typed = (event) => {
    const { pause, onText } = this.props;
    const text = event.target.value;
    this.setState({ text });
    clearTimeout(this.timer);
    if (pause) {
      this.timer = setTimeout(() => onText(text), pause);
    }
  };

  entered = (event) => {
    clearTimeout(this.timer);
    this.props.onText(event.target.value);
  };

  render({ label, placeholder, help }, { text }) {
    return html`<label class="filter">${label}
      <input type="search" id="filter" value=${text} placeholder=${placeholder} autocomplete="off" spellcheck=${false}
        aria-describedby=${help && "filter-help"} onInput=${this.typed} onChange=${this.entered} />
      ${help && html`<small id="filter-help">${help}</small>`}
    </label>`;
  }
}
