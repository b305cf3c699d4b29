import { html } from "./html.js";
import { JobTable } from "./jobtable.js";
import { States } from "./states.js";
import { TopicBox } from "./topicbox.js";

/** Jobs of all topics, or of one, by state. Props: route, event. */
export function Jobs({ route, event }) {
  const { state = "delayed", topic = "" } = route.query;
  return html`
    <h1 tabindex="-1">Jobs</h1>
    <section class="panel list" aria-label="Jobs">
      <div class="bar"><${States} state=${state} counts=${topic ? null : event.stats} /><${TopicBox} topic=${topic} /></div>
      ${state === "ready" && !topic
        ? html`<p class="blank">Ready jobs stand in lists by topic: name a topic above, or choose one among the
          ${" "}<a href="#/">topics</a>.</p>`
        : html`<${JobTable} route=${route} topic=${topic} state=${state} event=${event} />`}
    </section>`;
}
