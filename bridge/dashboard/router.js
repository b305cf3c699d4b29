// The page's address: #/, #/topics/<topic>, #/jobs, #/jobs/<id>, #/dead, each with a query behind it.

/**
 * @typedef {object} Route
 * @property {string} view overview, topic, jobs, job, dead or unknown
 * @property {string} name the topic or id that the view is about
 * @property {Object<string, string>} query
 * @property {string[]} trail the cursors of the pages before this one, oldest first
 */

/**
 * Reads the address.
 * @returns {Route}
 */
export function current() {
  const [path, query = ""] = location.hash.slice(1).split(/\?(.*)/s);
  const [, first = "", rest = ""] = path.split("/");
  const route = { view: "unknown", name: "", query: Object.fromEntries(new URLSearchParams(query)), trail: history.state?.trail ?? [] };
  try {
    route.name = decodeURIComponent(rest);
  } catch {
    return route;
  }
  route.view = viewOf(first, route.name);
  return route;
}

function viewOf(first, name) {
  switch (first) {
    case "":
      return "overview";
    case "topics":
      return name ? "topic" : "overview";
    case "jobs":
      return name ? "job" : "jobs";
    case "dead":
      return "dead";
    default:
      return "unknown";
  }
}

/** The address of a topic. */
export const topicHref = (topic) => `#/topics/${encodeURIComponent(topic)}`;

/** The address of a job. */
export const jobHref = (id) => `#/jobs/${encodeURIComponent(id)}`;

/**
 * Goes to another query of the present view. Empty values are left out; what is not named stays as it is.
 * @param {Object<string, string>} change
 * @param {{trail?: string[], replace?: boolean}} how replace: without a step for the browser's Back
 */
export function goQuery(change, { trail = [], replace = false } = {}) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries({ ...current().query, ...change })) {
    if (value) {
      query.set(name, value);
    }
  }
  const path = (location.hash || "#/").split("?")[0];
  go(query.size ? `${path}?${query}` : path, { trail, replace });
}

/**
 * Goes to an address.
 * @param {string} hash
 * @param {{trail?: string[], replace?: boolean}} how
 */
export function go(hash, { trail = [], replace = false } = {}) {
  const state = { trail };
  if (replace) {
    history.replaceState(state, "", hash);
  } else {
    history.pushState(state, "", hash);
  }
  dispatchEvent(new PopStateEvent("popstate", { state }));
}

/**
 * Calls back with each new address, also those of the browser's Back.
 * @param {(route: Route) => void} callback
 */
export function onRoute(callback) {
  addEventListener("popstate", () => callback(current()));
}
