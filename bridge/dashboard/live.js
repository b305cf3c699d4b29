// The stream of figures. It is read with fetch, since an EventSource cannot show a token.

import { ApiError, refusal, unreachable } from "./api.js";
import { authorization } from "./token.js";

const firstPause = 500;
const longestPause = 10_000;
/** An event is due every second: a stream that is silent for so long is dead, although its connection is not. */
const silence = 8_000;

/**
 * One stream, taken up again where it breaks. Nothing is streamed while the page is hidden.
 *
 * The link that onLink is told is {state: "connecting"}, {state: "open"}, {state: "lost", message, at} with the time of
 * the next try, or {state: "refused", code, message}, after which nothing is tried until start is called again.
 */
export class Live {
  /**
   * @param {Object<string, string>} query match, limit and cursor
   * @param {(event: object) => void} onEvent
   * @param {(link: object) => void} onLink
   */
  constructor(query, onEvent, onLink = () => {}) {
    this.query = query;
    this.onEvent = onEvent;
    this.onLink = onLink;
  }

  /** Begins, or begins at once again. */
  start() {
    this.stop();
    this.pause = firstPause;
    document.addEventListener("visibilitychange", this.onVisible);
    addEventListener("online", this.onOnline);
    this.open();
  }

  /** Ends it. */
  stop() {
    document.removeEventListener("visibilitychange", this.onVisible);
    removeEventListener("online", this.onOnline);
    this.close();
  }

  onVisible = () => {
    this.close();
    if (!document.hidden) {
      this.open();
    }
  };

  onOnline = () => this.start();

  close() {
    this.controller?.abort();
    clearTimeout(this.retry);
    clearTimeout(this.watch);
  }

  async open() {
    const controller = new AbortController();
    this.controller = controller;
    this.onLink({ state: "connecting" });
    this.expectEvent(controller);
    let failure = new ApiError(0, unreachable);
    try {
      await this.read(controller);
    } catch (err) {
      failure = err instanceof ApiError ? err : failure;
    }
    if (this.controller !== controller || (controller.signal.aborted && controller.signal.reason !== silence)) {
      return;
    }
    this.broken(failure);
  }

  broken(failure) {
    clearTimeout(this.watch);
    if (failure.code >= 400 && failure.code < 500) {
      this.onLink({ state: "refused", code: failure.code, message: failure.message });
      return;
    }
    const pause = this.pause * (0.75 + Math.random() / 2);
    this.pause = Math.min(this.pause * 2, longestPause);
    this.onLink({ state: "lost", message: failure.message, at: Date.now() + pause });
    this.retry = setTimeout(() => this.open(), pause);
  }

  expectEvent(controller) {
    clearTimeout(this.watch);
    this.watch = setTimeout(() => controller.abort(silence), silence);
  }

  async read(controller) {
    const response = await fetch(`api/live?${new URLSearchParams(this.query)}`, {
      headers: authorization(), cache: "no-store", signal: controller.signal,
    });
    if (!response.ok) {
      throw refusal(response, await response.text());
    }
    let rest = "";
    for await (const chunk of chunksOf(response.body)) {
      const events = (rest + chunk).split("\n\n");
      rest = events.pop();
      for (const event of events.filter((text) => text.startsWith("data: "))) {
        this.pause = firstPause;
        this.expectEvent(controller);
        this.onLink({ state: "open" });
        this.onEvent(JSON.parse(event.slice("data: ".length)));
      }
    }
  }
}

/** The text of a stream. Not every browser can go through a stream with for await. */
async function* chunksOf(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  for (;;) {
    const { done, value } = await reader.read();
    if (done) {
      return;
    }
    yield value;
  }
}
