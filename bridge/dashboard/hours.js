import { history } from "./api.js";
import { Component } from "./html.js";

const freshFor = 30_000;
const atOnce = 3;

/** The last hours of topics, each asked for at most every half a minute, and few at once: a page has many topics. */
export class Hours {
  known = new Map(); // topic → {at, asked: promise of its hour}
  waiting = [];
  running = 0;

  /**
   * Gives a topic's last hour; an empty topic is all of them.
   * @param {string} topic
   * @returns {Promise<object>}
   */
  of(topic) {
    const known = this.known.get(topic);
    if (known && Date.now() - known.at < freshFor) {
      return known.asked;
    }
    for (const [other, { at }] of this.known) {
      if (Date.now() - at >= freshFor) {
        this.known.delete(other);
      }
    }
    const asked = this.turn().then(() => history(topic)).finally(() => this.leave());
    this.known.set(topic, { at: Date.now(), asked });
    asked.catch(() => this.known.delete(topic));
    return asked;
  }

  turn() {
    if (this.running < atOnce) {
      this.running++;
      return Promise.resolve();
    }
    return new Promise((resolve) => this.waiting.push(resolve));
  }

  leave() {
    const next = this.waiting.shift();
    if (next) {
      next();
    } else {
      this.running--;
    }
  }
}

/** Shows a topic's last hour, and looks again while the page is seen. Props: hours, topic, show(hour), blank. */
export class Hour extends Component {
  state = { hour: null };

  componentDidMount() {
    this.load();
    this.timer = setInterval(() => !document.hidden && this.load(), freshFor + 1000);
  }

  componentDidUpdate(before) {
    if (before.topic !== this.props.topic) {
      this.setState({ hour: null });
      this.load();
    }
  }

  componentWillUnmount() {
    clearInterval(this.timer);
    this.gone = true;
  }

  async load() {
    const { topic, hours } = this.props;
    try {
      const hour = await hours.of(topic);
      if (!this.gone && topic === this.props.topic) {
        this.setState({ hour });
      }
    } catch {
      // the next try is not far; that the bridge is away is said elsewhere
    }
  }

  render({ show, blank = null }, { hour }) {
    return hour ? show(hour) : blank;
  }
}

/** The moments at which an hour's slots begin, in seconds. The last slot is the running one. */
export function slotsOf({ step_s: step, until, in: slots }) {
  const running = Math.floor(Date.parse(until) / 1000 / step) * step;
  return slots.map((_, i) => running - (slots.length - 1 - i) * step);
}

/** Of the running slot, less than this says nothing yet, in seconds. */
const leastRunning = 5;

/** The counts of an hour's slots as rates, by how much of the running slot is over. */
export function perSecond(hour, name) {
  const { step_s: step, until } = hour;
  const over = Math.max((Date.parse(until) / 1000) % step, leastRunning);
  return hour[name].map((n, i, { length }) => n / (i === length - 1 ? over : step));
}
