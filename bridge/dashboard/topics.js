import { Condition, conditions } from "./condition.js";
import { Filter, patternsOf } from "./filter.js";
import { bytes, compact, figure, milliseconds, rate } from "./format.js";
import { HourPlots, HourSparks } from "./hourplots.js";
import { Component, html } from "./html.js";
import { Live } from "./live.js";
import { Name } from "./name.js";
import { Pager } from "./pager.js";
import { goQuery, topicHref } from "./router.js";
import { System } from "./system.js";
import { Tiles } from "./tiles.js";
import { Timeline } from "./timeline.js";

const pageSize = 50;

/** What the view of topics asks the stream for. */
export function topicsQuery({ query }) {
  const [match = ""] = patternsOf(query.match ?? "");
  return { match, limit: String(pageSize), cursor: query.cursor ?? "" };
}

/** The whole installation: figures, plots, topics, replicas, Redis. Props: route, event, hours. */
export class Topics extends Component {
  /** The bridge looks through only so many topics for a page: one that is empty is passed over. */
  componentDidUpdate() {
    const { route, event } = this.props;
    if (!event.stale && event.topics?.length === 0 && event.cursor) {
      goQuery({ cursor: event.cursor }, { trail: route.trail, replace: true });
    }
  }

  render({ route, event, hours }) {
    return html`
      <h1 tabindex="-1">Topics</h1>
      <${Tiles} tiles=${tilesOf(event)} />
      <div class="overview">
        ${event.stats?.topics === 0 ? html`<${FirstPush} />` : html`
          <section class="plots panel" aria-label="Plots"><${HourPlots} hours=${hours} /><${Timeline} /></section>
          <${TopicList} route=${route} event=${event} hours=${hours} />`}
        <${System} event=${event} />
      </div>`;
  }
}

function TopicList({ route, event, hours }) {
  const match = route.query.match ?? "";
  return html`<section class="panel list" aria-label="Topics">
    <${Filter} text=${match} />
    <${Exact} match=${patternsOf(match)[1] ?? ""} first=${route.trail.length === 0} show=${(exact) => html`
      <${TopicTable} topics=${[...exact, ...(event.topics ?? [])]} event=${event} hours=${hours} filtered=${match !== ""} />`} />
    <${Pager} route=${route} cursor=${event.cursor} what="topics" />
  </section>`;
}

function tilesOf({ stats, figures, redis }) {
  return [
    { label: "Topics", value: figure(stats?.topics) },
    { label: "Delayed", value: figure(stats?.delayed) },
    { label: "Ready", value: figure(stats?.ready) },
    { label: "In flight", value: figure(stats?.inflight) },
    { label: "Dead", value: figure(stats?.dead), tone: stats?.dead > 0 ? "warn" : "" },
    { label: "In", value: rate(figures?.in_per_s), note: "/s" },
    { label: "Out", value: rate(figures?.out_per_s), note: "/s" },
    { label: "Finished", value: rate(figures?.finished_per_s), note: "/s" },
    { label: "Late p50", value: milliseconds(figures?.late_p50_ms) },
    { label: "Late p99", value: milliseconds(figures?.late_p99_ms) },
    { label: "Replicas", value: figure(stats?.replicas.length) },
    { label: "Redis", value: redis ? bytes(redis.used_memory) : "–" },
  ];
}

/** A filter without wildcards means the topic itself too, which no one pattern says: it has a stream of its own. */
class Exact extends Component {
  state = { topics: [] };

  componentDidMount() {
    this.follow();
  }

  componentDidUpdate(before) {
    if (before.match !== this.props.match || before.first !== this.props.first) {
      this.follow();
    }
  }

  componentWillUnmount() {
    this.live?.stop();
  }

  follow() {
    this.live?.stop();
    this.live = null;
    this.setState({ topics: [] });
    const { match, first } = this.props;
    if (match && first) {
      this.live = new Live({ match, limit: "1" }, ({ topics }) => topics && this.setState({ topics }));
      this.live.start();
    }
  }

  render({ show }, { topics }) {
    return show(topics);
  }
}

function TopicTable({ topics, event, hours, filtered }) {
  if (!event.topics) {
    return html`<p class="blank">Loading…</p>`;
  }
  if (topics.length === 0) {
    const end = filtered ? "No topic matches." : "No more topics.";
    return html`<p class="blank">${event.cursor ? "None so far, looking on…" : end}</p>`;
  }
  return html`<div class="scroll"><table class="cards topics" aria-busy=${String(Boolean(event.stale))}>
    <caption class="hidden">Topics with their jobs by state, rates of the last 10 seconds and lateness</caption>
    <thead><tr>
      <th scope="col">Topic</th><th scope="col">Condition</th>
      ${columns.map(({ label }) => html`<th scope="col" key=${label} class="number">${label}</th>`)}
      <th scope="col">Last hour: in and out, lateness</th>
    </tr></thead>
    <tbody>${topics.map((t) => html`<tr key=${t.topic} class=${conditions(t)[0]?.tone ?? ""}>
      <th scope="row"><${Name} text=${t.topic} href=${topicHref(t.topic)} /></th>
      <td class="wide"><${Condition} topic=${t} /></td>
      ${columns.map(({ label, write, name }) => html`<td key=${label} class="number" data-label=${label}>${write(t[name])}</td>`)}
      <td class="wide sparks"><${HourSparks} hours=${hours} topic=${t.topic} /></td>
    </tr>`)}</tbody>
  </table></div>`;
}

const columns = [
  { label: "Delayed", name: "delayed", write: compact },
  { label: "Ready", name: "ready", write: compact },
  { label: "In flight", name: "inflight", write: compact },
  { label: "Dead", name: "dead", write: compact },
  { label: "In/s", name: "in_per_s", write: rate },
  { label: "Out/s", name: "out_per_s", write: rate },
  { label: "Late p50", name: "late_p50_ms", write: milliseconds },
  { label: "Late p99", name: "late_p99_ms", write: milliseconds },
];

function FirstPush() {
  const address = new URL("push", document.baseURI).href.replace(/#.*/, "");
  return html`<section class="panel first" aria-labelledby="first">
    <h2 id="first">No topics yet</h2>
    <p>A topic is there as soon as a job is pushed to it, and goes with its last job. Push a first one that is due in 30 seconds:</p>
    <pre>dqbridge push mail '{"to":"ann@example.org"}' --delay 30s</pre>
    <p>or over NATS:</p>
    <pre>nats request dq.push '{"topic":"mail","delay":"30s","body":{"to":"ann@example.org"}}'</pre>
    <p>or over HTTP (with <code>DQ_HTTP_TOKEN</code> set, add <code>-H "Authorization: Bearer …"</code>):</p>
    <pre>curl ${address} -d '{"topic":"mail","delay":"30s","body":{"to":"ann@example.org"}}'</pre>
    <p>Then take it as a worker does: <code>dqbridge pop mail --wait 1m</code></p>
  </section>`;
}
