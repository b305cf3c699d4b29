import { Component, createRef, html } from "./html.js";

/**
 * A dialog that holds the keyboard until it is over. Props: title, confirm (what its button says; without it there is
 * only a button to close), danger, onConfirm (may return a promise; what it throws is shown), onClose, stays (it cannot
 * be closed without an answer).
 */
export class Dialog extends Component {
  state = { busy: false, fault: "" };
  element = createRef();

  componentDidMount() {
    this.element.current.showModal();
  }

  componentWillUnmount() {
    this.over = true;
    this.element.current.close(); // gives the focus back
  }

  confirm = async (event) => {
    event.preventDefault();
    if (this.state.busy) {
      return;
    }
    this.setState({ busy: true, fault: "" });
    try {
      await this.props.onConfirm();
      this.setState({ busy: false });
    } catch (err) {
      this.setState({ busy: false, fault: err.message });
    }
  };

  /** The browser has closed it, for Esc. */
  closed = () => {
    if (this.over) {
      return;
    }
    if (this.props.stays || this.state.busy) {
      this.element.current.showModal();
    } else {
      this.props.onClose();
    }
  };

  render({ title, confirm, danger, stays, onClose, children }, { busy, fault }) {
    return html`<dialog ref=${this.element} aria-labelledby="dialog-title" onClose=${this.closed}>
      <form onSubmit=${this.confirm}>
        <h2 id="dialog-title">${title}</h2>
        ${children}
        ${fault && html`<p class="fault" role="alert">${fault}</p>`}
        <div class="buttons">
          ${!stays && html`<button type="button" disabled=${busy} onClick=${onClose}>${confirm ? "Leave it" : "Close"}</button>`}
          ${confirm && html`
            <button type="submit" class=${danger ? "danger" : "main"} disabled=${busy}>${busy ? "Working…" : confirm}</button>`}
        </div>
      </form>
    </dialog>`;
  }
}
