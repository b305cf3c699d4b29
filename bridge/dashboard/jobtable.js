import { admin } from "./api.js";
import { count, moment, relative } from "./format.js";
import { Component, html } from "./html.js";
import { Name } from "./name.js";
import { Pager } from "./pager.js";
import { jobHref, topicHref } from "./router.js";

const pageSize = 50;
/** Every how many seconds a page of jobs is looked at again. */
const every = 2;

/** The states of a job, and what its moment is called there. */
export const states = { delayed: "Due", ready: "Due", inflight: "TTR ends", dead: "Died" };

/** A state in words. */
export const stateName = (state) => (state === "inflight" ? "in flight" : state);

const momentOf = (job) => job.deadline_at ?? job.dead_at ?? job.due_at;

/** A page of jobs. The bridge looks through only so many for one: a page that is empty, but not the last, is passed over. */
async function pageOf(input) {
  const page = await admin("list", input);
  return page.jobs.length === 0 && page.cursor ? pageOf({ ...input, cursor: page.cursor }) : page;
}

/**
 * A page of jobs of a state. It follows what happens to them. Props: route (its cursor is the page's), topic (empty: of
 * all topics), state, event (of the stream), version (another one: look again at once), rowAction(job).
 */
export class JobTable extends Component {
  state = { page: null, fault: "" };
  ticks = 0;

  componentDidMount() {
    this.load();
  }

  componentDidUpdate(before) {
    const { topic, state, route, event, version } = this.props;
    if (before.topic !== topic || before.state !== state || before.route.query.cursor !== route.query.cursor) {
      this.setState({ page: null, fault: "" });
      this.load();
    } else if (before.version !== version || (before.event.at !== event.at && ++this.ticks % every === 0)) {
      this.load();
    }
  }

  componentWillUnmount() {
    this.asked = null;
  }

  async load() {
    const { topic, state, route } = this.props;
    const asked = {};
    this.asked = asked; // only the newest question's answer counts
    let next;
    try {
      next = { page: await pageOf({ state, topic, limit: pageSize, cursor: route.query.cursor ?? "" }), fault: "" };
    } catch (err) {
      next = { fault: err.message };
    }
    if (this.asked === asked) {
      this.setState(next);
    }
  }

  render({ topic, state, route, event, rowAction }, { page, fault }) {
    const now = Date.parse(event.at);
    return html`
      ${fault && html`<p class="fault" role="alert">${fault}</p>`}
      ${page ? html`<${Rows} jobs=${page.jobs} topic=${topic} state=${state} now=${now} rowAction=${rowAction} />
        <${Pager} route=${route} cursor=${page.cursor} what="jobs" />`
      : !fault && html`<p class="blank">Loading…</p>`}`;
  }
}

function Rows({ jobs, topic, state, now, rowAction }) {
  if (jobs.length === 0) {
    return html`<p class="blank">No ${stateName(state)} jobs.</p>`;
  }
  return html`<div class="scroll"><table class="cards jobs">
    <caption class="hidden">${`Jobs that are ${stateName(state)}`}</caption>
    <thead><tr>
      <th scope="col">Job</th>${!topic && html`<th scope="col">Topic</th>`}<th scope="col">${states[state]}</th>
      <th scope="col" class="number">Attempts</th><th scope="col">Pushed</th>${state === "dead" && html`<th scope="col">Reason</th>`}
      ${rowAction && html`<th scope="col"><span class="hidden">Actions</span></th>`}
    </tr></thead>
    <tbody>${jobs.map((job) => html`<tr key=${job.id}>
      <th scope="row"><${Name} text=${job.id} href=${jobHref(job.id)} /></th>
      ${!topic && html`<td data-label="Topic"><${Name} text=${job.topic} href=${topicHref(job.topic)} /></td>`}
      <td data-label=${states[state]} title=${moment(momentOf(job))}>${relative(momentOf(job), now)}</td>
      <td data-label="Attempts" class="number">${count(job.attempt)}${job.max_attempts > 0 && ` of ${count(job.max_attempts)}`}</td>
      <td data-label="Pushed" title=${moment(job.pushed_at)}>${relative(job.pushed_at, now)}</td>
      ${state === "dead" && html`<td class="wide reason" data-label="Reason">${job.dead_reason}</td>`}
      ${rowAction && html`<td class="wide row-action">${rowAction(job)}</td>`}
    </tr>`)}</tbody>
  </table></div>`;
}
