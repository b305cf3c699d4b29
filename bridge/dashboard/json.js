// JSON as text. Bodies are shown as they were pushed: a parser would round large numbers, sort keys that are numbers,
// and drop names that are there twice.

const tokens = /"(?:[^"\\]|\\.)*"|[{}[\],:]|[^\s{}[\],:"]+/gs;

/**
 * The text of a value inside a JSON text, undefined where it is not there.
 * @param {string} text
 * @param {string[]} path names of members, the outermost first
 */
export function sliceOf(text, path) {
  let depth = 0;
  let found = 0; // how many names of the path lead to here
  let key = "";
  let start = -1;
  for (const { 0: token, index } of text.matchAll(tokens)) {
    if (start >= 0 && depth === path.length && (token === "," || token === "}")) {
      return text.slice(start, index).trim();
    }
    if (token === ":" && start < 0 && depth === found + 1 && key === JSON.stringify(path[found])) {
      found++;
      start = found === path.length ? index + 1 : -1;
    }
    if (token === "{" || token === "[") {
      depth++;
    } else if (token === "}" || token === "]") {
      depth--;
      if (start < 0 && depth <= found) {
        return undefined;
      }
    }
    key = token;
  }
  return undefined;
}

/**
 * A JSON text with a member a line.
 * @param {string} text
 */
export function indent(text) {
  let out = "";
  let depth = 0;
  let before = "";
  const line = () => `\n${"  ".repeat(depth)}`;
  for (const [token] of text.matchAll(tokens)) {
    if (token === "}" || token === "]") {
      depth--;
      out += before === "{" || before === "[" ? token : line() + token;
    } else {
      out += before === "{" || before === "[" || before === "," ? line() + token : token;
    }
    if (token === "{" || token === "[") {
      depth++;
    } else if (token === ":") {
      out += " ";
    }
    before = token;
  }
  return out;
}
