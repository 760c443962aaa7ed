// What happened, the newest first, of the kinds that are asked for.

import { h, byId, text, attribute } from "./dom.js";
import { num, clock } from "./format.js";
import { state, change } from "./state.js";

const kinds = { SCALE: "scaling", WORKER: "workers", LEADER: "masters", SESSION: "sessions", DATA: "data", CHECKPOINT: "checkpoints" };
const tones = { SCALE: "warn", DATA: "bad", LEADER: "warn", CHECKPOINT: "good" };
const shown = 200;

export class Events {
  #drawn = "";

  constructor() {
    const button = (kind, name) => h("button", { type: "button", "data-kind": kind, onclick: () => change({ events: kind }) }, name);
    this.filters = h("div", { class: "filters", role: "group", "aria-label": "Kinds of events" }, button("", "all"), ...Object.entries(kinds).map(([k, name]) => button(k, name)));
    this.list = h("ol", { class: "events", tabindex: "0", "aria-label": "Events, the newest first" });
    this.none = h("p", { class: "none" });
    byId("events").append(this.filters, this.none, this.list);
  }

  show(events) {
    const kind = state().events, last = events.at(-1)?.number ?? 0;
    if (this.#drawn === `${kind} ${last} ${events.length}`) return;
    this.#drawn = `${kind} ${last} ${events.length}`;
    for (const b of this.filters.children) attribute(b, "aria-pressed", String(b.dataset.kind === kind));
    const some = events.filter((e) => !kind || e.kind === kind).slice(-shown).reverse();
    text(this.none, some.length ? "" : "None yet.");
    this.none.hidden = some.length > 0;
    this.list.hidden = some.length === 0;
    this.list.replaceChildren(...some.map((e) => h("li", {},
      h("time", { datetime: new Date(num(e.unix_ms)).toISOString(), title: new Date(num(e.unix_ms)).toLocaleString() }, clock(num(e.unix_ms))),
      h("span", {}, h("span", { class: `chip ${tones[e.kind] ?? ""}` }, kinds[e.kind] ?? "other")),
      h("span", {}, words(e)))));
  }
}

// words say what an event is about where its own words do not.
function words(e) {
  const about = [e.session, e.worker].filter((x) => x && !e.words.includes(x));
  if (e.rank !== undefined && !e.words.includes("rank")) about.push(`rank ${e.rank}`);
  return about.length ? `${e.words} (${about.join(", ")})` : e.words;
}
