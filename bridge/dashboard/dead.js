import { Actions, ReadOnly, jobActions, kickAllAction } from "./actions.js";
import { Component, html } from "./html.js";
import { count } from "./format.js";
import { JobTable } from "./jobtable.js";
import { TopicBox } from "./topicbox.js";

/** Dead letters of all topics, or of one. Props: route, event, tell. */
export class Dead extends Component {
  state = { version: 0 };

  changed = () => this.setState(({ version }) => ({ version: version + 1 }));

  number() {
    const { route: { query: { topic } }, event } = this.props;
    return topic ? event.topics?.find((t) => t.topic === topic)?.dead : event.stats?.dead;
  }

  rowAction = (job) => {
    const actions = jobActions(job.id).filter(({ label }) => label === "Kick" || label === "Cancel");
    return html`<${Actions} actions=${actions} may=${this.props.event.may_change} about=${job.id} label=${`Actions for ${job.id}`}
      tell=${this.props.tell} onDone=${this.changed} />`;
  };

  render({ route, event, tell }, { version }) {
    const { topic = "" } = route.query;
    const number = this.number();
    return html`
      <h1 tabindex="-1">Dead letters</h1>
      <p class="lead">${number === undefined ? "" : `${count(number)} dead.`} Jobs that are delivered no more. They are kept until they are
        kicked, cancelled, or older than <code>DQ_DEAD_RETENTION</code>.</p>
      <${ReadOnly} event=${event} />
      <section class="panel list" aria-label="Dead letters">
        <div class="bar"><${TopicBox} topic=${topic} />
          <${Actions} actions=${[kickAllAction(topic, number ?? 0)]} may=${event.may_change && number > 0} label="Actions for all"
            tell=${tell} onDone=${this.changed} /></div>
        <${JobTable} route=${route} topic=${topic} state="dead" event=${event} version=${version} rowAction=${this.rowAction} />
      </section>`;
  }
}
