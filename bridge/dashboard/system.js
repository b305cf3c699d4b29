import { bytes, count, moment, relative } from "./format.js";
import { reasons } from "./health.js";
import { html } from "./html.js";

/** The replicas, Redis, and what the bridge says of its health. Props: event (of the stream). */
export function System({ event }) {
  return html`<section class="system" aria-label="Replicas and Redis">
    <${Replicas} event=${event} />
    <${Redis} event=${event} />
    <${Health} event=${event} />
  </section>`;
}

function Replicas({ event: { stats, figures, replica, at } }) {
  const list = stats?.replicas ?? [];
  const silent = figures ? figures.replicas - figures.answered : 0;
  return html`<section class="panel" aria-labelledby="replicas">
    <h2 id="replicas">Replicas alive: ${list.length}</h2>
    ${silent > 0 && html`<p class="warn">▲ ${silent} of them did not tell their figures.</p>`}
    <div class="scroll"><table>
      <thead><tr><th scope="col">Replica</th><th scope="col">Host</th><th scope="col">Version</th><th scope="col">Started</th></tr></thead>
      <tbody>${list.map((r) => html`<tr key=${r.id}>
        <th scope="row">${r.id}${r.id === replica && html` <small>here</small>`}</th><td>${r.host}</td><td>${r.version}</td>
        <td title=${moment(r.started_at)}>${relative(r.started_at, Date.parse(at))}</td>
      </tr>`)}</tbody>
    </table></div>
  </section>`;
}

const persistence = {
  aof: ({ aof_fsync: fsync }) => `append-only file${fsync ? `, fsync ${fsync}` : ""}`,
  rdb: () => "snapshots only",
  none: () => html`<b class="warn">▲ none</b>`,
};

function Redis({ event: { redis, stats, at } }) {
  if (!redis) {
    return html`<section class="panel" aria-labelledby="redis"><h2 id="redis">Redis</h2><p>Not known.</p></section>`;
  }
  const { used_memory: used, maxmemory: most } = redis;
  return html`<section class="panel" aria-labelledby="redis">
    <h2 id="redis">Redis ${stats?.redis.version}</h2>
    <dl class="facts">
      <div><dt>Memory</dt><dd>${bytes(used)}${most > 0 ? html` of ${bytes(most)} <${Share} part=${used / most} />` : ", no limit"}</dd></div>
      <div><dt>When full</dt><dd>${redis.maxmemory_policy}</dd></div>
      <div><dt>Persistence</dt><dd>${(persistence[redis.persistence] ?? String)(redis)}</dd></div>
      ${redis.persistence === "aof" && html`
        <div><dt>Last append</dt><dd>${redis.aof_last_write_ok ? "ok" : html`<b class="bad">✕ failed</b>`}</dd></div>`}
      <div><dt>Last snapshot</dt><dd>${snapshot(redis, Date.parse(at))}</dd></div>
      <div><dt>Redis replicas</dt><dd>${count(stats?.redis.connected_replicas)}</dd></div>
    </dl>
    ${redis.concerns?.map((text) => html`<p key=${text} class="warn">▲ ${text}</p>`)}
  </section>`;
}

/** How much of the memory is in use. */
function Share({ part }) {
  return html`<meter min="0" max="1" high="0.85" optimum="0.3" value=${part} aria-label="Memory in use">${Math.round(100 * part)} %</meter>`;
}

function snapshot({ last_save_ok: ok, last_save_at: at }, now) {
  if (!ok) {
    return html`<b class="bad">✕ failed</b>`;
  }
  return at ? relative(at, now) : "none since Redis started";
}

function Health({ event }) {
  const { health, version } = event;
  const lines = reasons(event);
  return html`<section class="panel" aria-labelledby="health">
    <h2 id="health">Health</h2>
    <p><span class=${health?.ready ? "badge good" : "badge bad"}>${health?.ready ? "✓ ready" : "✕ not ready"}</span> dqbridge ${version}</p>
    ${lines.length > 0 && html`<ul class="lines">${lines.map((line) => html`<li key=${line}>${line}</li>`)}</ul>`}
  </section>`;
}

