import { Connection, Trouble } from "./connection.js";
import { Dead } from "./dead.js";
import { Find } from "./find.js";
import { count } from "./format.js";
import { Hours } from "./hours.js";
import { Component, html, render } from "./html.js";
import { Job } from "./job.js";
import { Jobs } from "./jobs.js";
import { KeysDialog, onKeys } from "./keys.js";
import { Live } from "./live.js";
import { Notices, noticeStays } from "./notices.js";
import { current, go, onRoute } from "./router.js";
import { TokenDialog, forgetToken, token } from "./token.js";
import { Topic, topicQuery } from "./topic.js";
import { boxQuery } from "./topicbox.js";
import { Topics, topicsQuery } from "./topics.js";

/** Of each view: what shows it, what it asks the stream for, and which link of the navigation it belongs to. */
const views = {
  overview: { show: Topics, query: topicsQuery, title: () => "Topics", nav: "#/" },
  topic: { show: Topic, query: topicQuery, title: ({ name }) => name, nav: "#/" },
  jobs: { show: Jobs, query: boxQuery, title: () => "Jobs", nav: "#/jobs" },
  job: { show: Job, query: () => ({ limit: "1" }), title: ({ name }) => name, nav: "#/jobs" },
  dead: { show: Dead, query: boxQuery, title: () => "Dead letters", nav: "#/dead" },
  unknown: { show: Unknown, query: () => ({ limit: "1" }), title: () => "Not found", nav: "" },
};

function Unknown() {
  return html`<h1 tabindex="-1">Not found</h1><p>There is no such page. All <a href="#/">topics</a>.</p>`;
}

class App extends Component {
  state = { route: current(), event: null, link: { state: "connecting" }, keys: false, notice: "" };
  hours = new Hours();

  componentDidMount() {
    onRoute((route) => this.turn(route));
    const press = (id) => () => document.getElementById(id)?.click();
    const focus = (id) => () => document.getElementById(id)?.focus();
    onKeys({
      "/": focus("find"), f: focus("filter"), t: () => go("#/"), j: () => go("#/jobs"), d: () => go("#/dead"),
      n: press("next"), p: press("previous"), "?": () => this.setState({ keys: true }),
    });
    this.follow(this.state.route);
    this.named(this.state.route);
  }

  /** Shows another address. */
  turn(route) {
    const before = this.state.route;
    const other = before.view !== route.view || before.name !== route.name;
    this.setState({ route }, () => other && document.querySelector("h1")?.focus());
    this.follow(route);
    this.named(route);
  }

  named(route) {
    document.title = `${views[route.view].title(route)} · dqbridge`;
  }

  follow(route) {
    const query = views[route.view].query(route);
    if (this.live && JSON.stringify(query) === JSON.stringify(this.live.query)) {
      return;
    }
    this.live?.stop();
    this.setState(({ event }) => ({ event: event && { ...event, stale: true } }));
    this.live = new Live(query, this.came, this.linked);
    this.live.start();
  }

  /** Takes an event. What could not be had stays as it was. */
  came = (event) => this.setState(({ event: before }) => ({ event: { ...before, error: "", stale: false, ...event } }));

  linked = (link) => this.setState({ link });

  again = () => this.live.start();

  leave = () => {
    forgetToken();
    location.reload();
  };

  tell = (notice) => {
    clearTimeout(this.noticed);
    this.setState({ notice });
    this.noticed = setTimeout(() => this.setState({ notice: "" }), noticeStays);
  };

  render(_, { route, event, link, keys, notice }) {
    const { show: View, nav } = views[route.view];
    return html`
      <a class="skip" href=${location.hash || "#/"} onClick=${skip}>To the content</a>
      <${Header} nav=${nav} event=${event} link=${link} onLeave=${this.leave} onKeys=${() => this.setState({ keys: true })} />
      <${Trouble} link=${link} event=${event} onAgain=${this.again} />
      <main id="main" tabindex="-1">
        ${event ? html`<${View} key=${`${route.view} ${route.name}`} route=${route} event=${event} hours=${this.hours} tell=${this.tell} />`
          : link.state === "connecting" && html`<p class="blank">Loading…</p>`}
      </main>
      <${Notices} text=${notice} />
      ${keys && html`<${KeysDialog} onClose=${() => this.setState({ keys: false })} />`}
      ${link.state === "refused" && link.code === 401 && html`<${TokenDialog} wrong=${Boolean(token())} onGiven=${this.again} />`}`;
  }
}

/** The link's own way would be another address, which here means another view. */
function skip(event) {
  event.preventDefault();
  document.getElementById("main").focus();
}

function Header({ nav, event, link, onLeave, onKeys: showKeys }) {
  const dead = event?.stats?.dead;
  const links = [["#/", "Topics"], ["#/jobs", "Jobs"], ["#/dead", "Dead letters", dead > 0 && html` <small>${count(dead)}</small>`]];
  return html`<header>
    <a class="brand" href="#/">dqbridge</a>
    <nav aria-label="Views">${links.map(([href, text, note]) => html`
      <a key=${href} href=${href} aria-current=${nav === href ? "page" : undefined}>${text}${note}</a>`)}
    </nav>
    <${Find} />
    <${Connection} link=${link} />
    <div class="tools">
      ${token() && html`<button type="button" onClick=${onLeave}>Forget the token</button>`}
      <button type="button" aria-label="Keys" onClick=${showKeys}>?</button>
    </div>
  </header>`;
}

const root = document.getElementById("app");
root.replaceChildren();
render(html`<${App} />`, root);
