import { Actions, ReadOnly, kickAllAction, pauseActions, purgeAction } from "./actions.js";
import { Condition, conditions } from "./condition.js";
import { duration, figure, milliseconds, rate } from "./format.js";
import { HourPlots } from "./hourplots.js";
import { Component, html } from "./html.js";
import { JobTable } from "./jobtable.js";
import { Copy } from "./name.js";
import { States } from "./states.js";
import { Tiles } from "./tiles.js";

/** What this view asks the stream for. */
export const topicQuery = ({ name }) => ({ match: name, limit: "1" });

/** What is shown of a topic that has no jobs: the stream does not tell of it. */
const empty = (topic) => ({ topic, delayed: 0, ready: 0, inflight: 0, dead: 0, listening: null, paused: null });

/** One topic: its figures, its last hour, its jobs. Props: route, event, hours, tell. */
export class Topic extends Component {
  state = { version: 0 };

  changed = () => this.setState(({ version }) => ({ version: version + 1 }));

  render({ route, event, hours, tell }, { version }) {
    const name = route.name;
    const t = event.topics?.find(({ topic }) => topic === name) ?? (event.stale ? null : empty(name));
    if (!t) {
      return html`<h1 tabindex="-1">Topic <bdi class="whole">${name}</bdi></h1><p class="blank">Loading…</p>`;
    }
    const { state = "delayed" } = route.query;
    const actions = [...pauseActions(t), kickAllAction(name, t.dead), purgeAction(t)];
    return html`
      <h1 tabindex="-1">Topic <bdi class="whole">${name}</bdi> <${Copy} text=${name} what="the topic" /></h1>
      <p class="lead"><${Condition} topic=${t} /></p>
      <${ReadOnly} event=${event} />
      <${Actions} actions=${actions} may=${event.may_change} fits=${({ label }) => label !== "Kick all" || t.dead > 0} about=${name}
        label="Actions for this topic" tell=${tell} onDone=${this.changed} />
      <${Tiles} tiles=${tilesOf(t)} />
      <section class="plots panel" aria-label="Plots"><${HourPlots} hours=${hours} topic=${name} /></section>
      <section class="panel list" aria-labelledby="jobs">
        <h2 id="jobs">Jobs</h2>
        <div class="bar"><${States} state=${state} counts=${t} /></div>
        <${JobTable} route=${route} topic=${name} state=${state} event=${event} version=${version} />
      </section>`;
  }
}

function tilesOf(t) {
  const tone = conditions(t)[0]?.tone;
  const oldest = t.oldest_ready_s == null ? "" : `oldest ${duration(t.oldest_ready_s)}`;
  return [
    { label: "Delayed", value: figure(t.delayed) },
    { label: "Ready", value: figure(t.ready), note: oldest, tone: t.ready > 0 ? tone : "" },
    { label: "In flight", value: figure(t.inflight) },
    { label: "Dead", value: figure(t.dead), tone: t.dead > 0 ? "warn" : "" },
    { label: "In", value: rate(t.in_per_s), note: "/s" },
    { label: "Out", value: rate(t.out_per_s), note: "/s" },
    { label: "Late p50", value: milliseconds(t.late_p50_ms) },
    { label: "Late p99", value: milliseconds(t.late_p99_ms) },
  ];
}
