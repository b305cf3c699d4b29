// Requests to the bridge that are answered with an envelope.

import { authorization } from "./token.js";

/** An answer that says no, or none: then code is 0. */
export class ApiError extends Error {
  constructor(code, message) {
    super(message);
    this.code = code;
  }
}

/** What an unreachable bridge is called everywhere. */
export const unreachable = "the bridge does not answer";

/**
 * Turns an answer that is no success into its error.
 * @param {Response} response
 * @param {string} text its body
 */
export function refusal(response, text) {
  let message = "";
  try {
    message = JSON.parse(text).message;
  } catch {
    // not from a bridge: a proxy in between
  }
  return new ApiError(response.status, message || `HTTP status ${response.status}`);
}

async function request(path, options = {}) {
  let response;
  let text;
  try {
    response = await fetch(path, { ...options, headers: authorization(), cache: "no-store" });
    text = await response.text();
  } catch (err) {
    if (options.signal?.aborted) {
      throw err;
    }
    throw new ApiError(0, unreachable);
  }
  if (!response.ok) {
    throw refusal(response, text);
  }
  return text;
}

/**
 * Carries out an admin verb and gives the data of its answer.
 * @param {string} verb as in dq.admin.<verb>
 * @param {object} input
 */
export async function admin(verb, input = {}) {
  return JSON.parse(await adminText(verb, input)).data;
}

/** The same, with the envelope as it came. */
export function adminText(verb, input = {}) {
  return request(`api/admin/${verb}`, { method: "POST", body: JSON.stringify(input) });
}

/**
 * The last hour of a topic, or of all where it is empty.
 * @param {string} topic
 * @param {AbortSignal} signal
 */
export async function history(topic, signal) {
  return JSON.parse(await request(`api/history?${new URLSearchParams({ topic })}`, { signal })).data;
}

/**
 * Delayed jobs by when they become due.
 * @param {"1m"|"1h"|"1d"} range
 * @param {AbortSignal} signal
 */
export async function timeline(range, signal) {
  return JSON.parse(await request(`api/timeline?${new URLSearchParams({ range })}`, { signal })).data;
}
