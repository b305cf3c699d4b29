import { admin } from "./api.js";
import { Dialog } from "./dialog.js";
import { cut, jobs as jobsIn, moment } from "./format.js";
import { Component, html } from "./html.js";

/**
 * @typedef {object} Action something that changes what is stored, once it was confirmed
 * @property {string} label what its button says
 * @property {string} [confirm] what the button of its confirmation says, where that is not the same
 * @property {string} title what is asked
 * @property {string} text what it means
 * @property {boolean} [danger] it cannot be taken back
 * @property {{name: string, label: string, value?: string, help?: string, options?: string[], required?: boolean}[]} [fields]
 * @property {(values: Object<string, string>) => Promise<string>} run does it, and says what was done
 * @property {(job: {state: string}) => boolean} [fits] whether it can be done to a job
 */

const brief = (text) => `“${cut(text, 60)}”`;

/** What can be done to a job. */
export const jobActions = (id) => [
  {
    label: "Run now", title: "Run it now?", text: "The job becomes due at once.",
    fits: ({ state }) => state === "delayed" || state === "ready",
    run: async () => `Due now: it is ${(await admin("run", { id })).state}.`,
  },
  {
    label: "Reschedule", title: "Reschedule it?", text: "The job becomes due at another time.",
    fits: ({ state }) => state === "delayed" || state === "ready",
    fields: [{ name: "delay", label: "Due in", value: "10m", required: true, help: "seconds, or with units: 90, 250ms, 1h30m" }],
    run: async ({ delay }) => `Due at ${moment((await admin("reschedule", { id, delay: lengthOf(delay) })).due_at)}.`,
  },
  {
    label: "Kick", title: "Kick it?", text: "The dead job becomes ready again, with its attempts at 0.",
    fits: ({ state }) => state === "dead",
    run: async () => `Kicked: ${jobsIn((await admin("kick", { id })).kicked)}.`,
  },
  {
    label: "Bury", title: "Bury it?", text: "The job becomes dead: it is kept, and delivered no more until it is kicked.",
    fits: ({ state }) => state !== "dead", danger: true,
    fields: [{ name: "reason", label: "Reason", help: "up to 200 bytes are kept" }],
    run: async ({ reason }) => `Buried: it is ${(await admin("bury", reason ? { id, reason } : { id })).state}.`,
  },
  {
    label: "Cancel", confirm: "Cancel the job", title: "Cancel it?", danger: true,
    text: "The job is removed for good, in whatever state it is.",
    fits: () => true,
    run: async () => `Cancelled: it was ${(await admin("cancel", { id })).state}.`,
  },
];

/** A length of time as the contract takes it: a number is seconds. */
const lengthOf = (text) => (/^[\d.]+$/.test(text.trim()) ? Number(text) : text.trim());

/** Pauses a topic, or goes on with it: both, where it is not known whether it is paused. */
export function pauseActions({ topic, paused }) {
  const pause = {
    label: "Pause", title: "Pause this topic?", text: `Nothing is delivered on ${brief(topic)} until it is resumed; all else goes on.`,
    run: async () => ((await admin("pause", { topic })).paused ? "Paused." : "Not paused."),
  };
  const resume = {
    label: "Resume", title: "Resume this topic?", text: `Jobs of ${brief(topic)} are delivered again.`,
    run: async () => ((await admin("resume", { topic })).paused ? "Still paused." : "Resumed."),
  };
  return [...(paused === true ? [] : [pause]), ...(paused === false ? [] : [resume])];
}

/** Removes all jobs of a topic in a state. */
export const purgeAction = ({ topic }) => ({
  label: "Purge", title: "Purge this topic?", danger: true,
  text: `All jobs of ${brief(topic)} in the state chosen below are removed for good.`,
  fields: [{ name: "state", label: "State", value: "dead", options: ["delayed", "ready", "inflight", "dead"] }],
  run: async ({ state }) => `Purged: ${jobsIn((await admin("purge", { topic, state })).purged)}.`,
});

/**
 * Kicks all dead jobs of a topic, or of all topics where it is empty.
 * @param {string} topic
 * @param {number} number how many there are
 * @returns {Action}
 */
export const kickAllAction = (topic, number) => ({
  label: "Kick all", title: topic ? "Kick all dead jobs of this topic?" : "Kick all dead jobs of all topics?",
  text: `${jobsIn(number)}${topic ? ` of ${brief(topic)}` : ""} become ready again, with their attempts at 0.`,
  run: async () => `Kicked: ${jobsIn(topic ? (await admin("kick", { topic })).kicked : await kickEverywhere())}.`,
});

async function kickEverywhere() {
  let kicked = 0;
  let cursor = "";
  do {
    const page = await admin("topics", { limit: 1000, cursor });
    for (const { topic } of page.topics.filter(({ dead }) => dead > 0)) {
      kicked += (await admin("kick", { topic })).kicked;
    }
    cursor = page.cursor;
  } while (cursor);
  return kicked;
}

/**
 * Buttons for actions, each with its confirmation. Props: actions, may (whether the bridge lets anybody change
 * something), fits(action), about (the id or topic, shown in the dialog), label, tell(text), onDone.
 */
export class Actions extends Component {
  state = { asked: null };

  done = async (values) => {
    const { asked } = this.state;
    const text = await asked.run(values);
    this.setState({ asked: null });
    this.props.tell(text);
    this.props.onDone?.();
  };

  render({ actions, may, fits = () => true, about, label }, { asked }) {
    return html`<div class="actions" role="group" aria-label=${label}>
      ${actions.map((action) => html`<button type="button" key=${action.label} class=${action.danger ? "danger" : ""}
        disabled=${!may || !fits(action)} onClick=${() => this.setState({ asked: action })}>${action.label}</button>`)}
      ${asked && html`<${Confirm} action=${asked} about=${about} onDone=${this.done} onClose=${() => this.setState({ asked: null })} />`}
    </div>`;
  }
}

/** Asks before an action. Props: action, about, onDone(values), onClose. */
class Confirm extends Component {
  state = Object.fromEntries((this.props.action.fields ?? []).map(({ name, value = "" }) => [name, value]));

  typed = (event) => this.setState({ [event.target.name]: event.target.value });

  render({ action, about, onDone, onClose }, values) {
    return html`<${Dialog} title=${action.title} confirm=${action.confirm ?? action.label} danger=${action.danger}
      onClose=${onClose} onConfirm=${() => onDone(values)}>
      <p>${action.text}</p>
      ${about && html`<p class="about">${about}</p>`}
      ${action.fields?.map((field) => html`
        <${Field} key=${field.name} field=${field} value=${values[field.name]} onInput=${this.typed} />`)}
    <//>`;
  }
}

function Field({ field: { name, label, help, options, required }, value, onInput }) {
  return html`<label class="field">${label}
    ${options ? html`<select name=${name} value=${value} onInput=${onInput}>
      ${options.map((option) => html`<option key=${option} value=${option}>${option}</option>`)}
    </select>` : html`<input name=${name} value=${value} required=${required} autocomplete="off" onInput=${onInput} />`}
    ${help && html`<small>${help}</small>`}
  </label>`;
}

/** Says why nothing can be changed here. Props: event (of the stream). */
export function ReadOnly({ event }) {
  return event.may_change === false && html`<p class="note" id="read-only">
    <b>Read-only.</b> The bridge has no token. Set <code>DQ_HTTP_TOKEN</code> where it runs, start it again, and open this
    page with that token to change something.
  </p>`;
}
