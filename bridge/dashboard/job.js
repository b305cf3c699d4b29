import { Actions, ReadOnly, jobActions } from "./actions.js";
import { adminText } from "./api.js";
import { Body, bodyOf } from "./body.js";
import { clock, count, duration, moment, relative } from "./format.js";
import { Component, html } from "./html.js";
import { stateName } from "./jobtable.js";
import { Copy } from "./name.js";
import { topicHref } from "./router.js";

/** One job. It follows what happens to it. Props: route, event, tell. */
export class Job extends Component {
  state = { job: null, body: null, missing: false, fault: "", gone: "" };

  componentDidMount() {
    this.load();
  }

  componentDidUpdate(before) {
    if (before.event.at !== this.props.event.at && !this.asking) {
      this.load();
    }
  }

  componentWillUnmount() {
    this.left = true;
  }

  load = async () => {
    this.asking = true;
    const next = await this.look();
    this.asking = false;
    if (!this.left) {
      this.setState(next);
    }
  };

  async look() {
    try {
      const envelope = await adminText("get", { id: this.props.route.name });
      if (envelope === this.seen) {
        return { gone: "", fault: "" };
      }
      this.seen = envelope;
      const job = JSON.parse(envelope).data;
      return { job, body: bodyOf(job, envelope), missing: false, gone: "", fault: "" };
    } catch (err) {
      if (err.code === 404) {
        return { missing: true, gone: this.state.gone || clock(new Date()), fault: "" };
      }
      return { fault: err.message };
    }
  }

  render({ route, event, tell }, { job, body, missing, fault, gone }) {
    const id = route.name;
    const may = event.may_change && job && !missing;
    return html`
      <h1 tabindex="-1">Job <bdi class="whole">${id}</bdi> <${Copy} text=${id} what="the id" /></h1>
      ${fault && html`<p class="fault" role="alert">${fault}</p>`}
      ${missing && html`<p class="note" role="status">${job
        ? `The job is gone since ${gone}: it was finished, cancelled or purged. Below is what it was.`
        : "There is no such job: it was finished, cancelled, or never pushed."}</p>`}
      ${!job && !missing && !fault && html`<p class="blank">Loading…</p>`}
      ${job && html`
        <${ReadOnly} event=${event} />
        <${Actions} actions=${jobActions(id)} may=${may} fits=${({ fits }) => fits(job)} about=${id}
          label="Actions for this job" tell=${tell} onDone=${this.load} />
        <div class=${missing ? "job past" : "job"}>
          <${Facts} job=${job} now=${Date.parse(event.at)} />
          <${History} job=${job} now=${Date.parse(event.at)} />
          <${Headers} headers=${job.headers} />
          <${Body} kind=${body.kind} text=${body.text} />
        </div>`}`;
  }
}

function Facts({ job, now }) {
  const rows = [
    ["Topic", html`<a href=${topicHref(job.topic)}><bdi class="whole">${job.topic}</bdi></a>
      ${" "}<${Copy} text=${job.topic} what="the topic" />`],
    ["State", html`<span class=${`badge ${job.state}`} role="status">${stateName(job.state)}</span>`],
    ["Attempts", `${count(job.attempt)} of ${job.max_attempts > 0 ? count(job.max_attempts) : "any number"}`],
    ["Due", html`${moment(job.due_at)} <small>${relative(job.due_at, now)}</small>`],
    ["Delay", duration(job.delay)],
    ["Time to run", job.ttr > 0 ? duration(job.ttr) : "0: gone once it was handed over"],
    ["Backoff", job.backoff ? job.backoff.map((pause) => duration(pause)).join(", ") : "none"],
    ["Expires", job.expires === undefined ? "never" : `${duration(job.expires)} overdue`],
  ];
  return html`<section class="panel" aria-labelledby="facts">
    <h2 id="facts">Facts</h2>
    <dl class="facts">${rows.map(([name, value]) => html`<div key=${name}><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>
  </section>`;
}

/** What is known to have happened to a job, and what comes next. */
function eventsOf(job) {
  const events = [["Pushed", job.pushed_at], ["Due the first time", job.first_due_at]];
  if (job.attempt > 0) {
    events.push([`Delivered ${job.attempt === 1 ? "once" : `${count(job.attempt)} times`}`, ""]);
  }
  if (job.state === "delayed" && job.attempt > 0) {
    events.push(["Due again", job.due_at]);
  }
  if (job.state === "inflight") {
    events.push(["A worker has it until", job.deadline_at]);
  }
  if (job.state === "dead") {
    events.push([`Dead: ${job.dead_reason}`, job.dead_at]);
  }
  return events;
}

function History({ job, now }) {
  return html`<section class="panel" aria-labelledby="history">
    <h2 id="history">History</h2>
    <ol class="history">${eventsOf(job).map(([what, at]) => html`<li key=${what}>
      <span>${what}</span>${at && html` <time datetime=${at}>${moment(at)}</time> <small>${relative(at, now)}</small>`}
    </li>`)}</ol>
  </section>`;
}

function Headers({ headers = {} }) {
  const rows = Object.entries(headers).flatMap(([name, values]) => values.map((value, i) => [`${name} ${i}`, name, value]));
  return html`<section class="panel" aria-labelledby="headers">
    <h2 id="headers">Headers</h2>
    ${rows.length === 0 ? html`<p class="blank">None.</p>` : html`<div class="scroll"><table>
      <thead><tr><th scope="col">Name</th><th scope="col">Value</th></tr></thead>
      <tbody>${rows.map(([key, name, value]) => html`
        <tr key=${key}><th scope="row">${name}</th><td class="whole">${value}</td></tr>`)}</tbody>
    </table></div>`}
  </section>`;
}
