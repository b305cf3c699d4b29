// Preact with htm's templates. Every value put into a template becomes text or an attribute, never markup.

import { Component, createRef, h, render } from "./vendor/preact.mjs";
import htm from "./vendor/htm.module.js";

export const html = htm.bind(h);
export { Component, createRef, render };
