import { html } from "./html.js";
import { goQuery } from "./router.js";
import { SearchBox } from "./searchbox.js";

/** What a view with this box asks the stream for. */
export const boxQuery = ({ query }) => ({ match: query.topic ?? "", limit: "1" });

/** Narrows a list to one topic. Props: topic. */
export function TopicBox({ topic }) {
  const chosen = (text) => text.trim() !== topic && goQuery({ topic: text.trim(), cursor: "" });
  return html`<${SearchBox} label="Topic" text=${topic} placeholder="all" onText=${chosen} />`;
}
