import { html } from "./html.js";
import { go, jobHref } from "./router.js";

/** The box that finds a job by its id. */
export function Find() {
  const find = (event) => {
    event.preventDefault();
    const field = event.target.elements.id;
    if (field.value.trim()) {
      go(jobHref(field.value.trim()));
      field.value = "";
    }
  };
  return html`<form class="find" role="search" onSubmit=${find}>
    <label class="hidden" for="find">Find a job by its id</label>
    <input type="search" id="find" name="id" placeholder="Find a job by its id" autocomplete="off" spellcheck=${false} />
    <button type="submit">Find</button>
  </form>`;
}
