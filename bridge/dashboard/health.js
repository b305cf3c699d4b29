/**
 * What the bridge says of its health, without what is shown as Redis's own concerns.
 * @param {object} event of the stream
 * @returns {string[]}
 */
export function reasons({ health, redis }) {
  return health?.lines.filter((line) => line !== "ok" && !redis?.concerns?.includes(line)) ?? [];
}
