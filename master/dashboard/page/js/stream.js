// The stream of the fleet: it is opened again by itself, where it ended, and says how it is doing.

import { named, parts } from "./names.js";

const again = 2000; // milliseconds before the next try after a refusal
const silence = 10_000; // from when on a stream that tells nothing is not to be trusted
const dead = 25_000; // and is opened anew

export class Stream {
  #source = null;
  #timer = 0;
  #id = "";
  #opened = 0;
  heard = 0; // when the newest message came

  // on has hello(who), observation(o), workers(list), events(list), gone(words) of a session that is not there, and condition(state, words) with state live, wait
  // or lost.
  constructor(on) {
    this.on = on;
    setInterval(() => this.#listen(), 1000);
  }

  // watch follows a session, or the whole fleet with "". What came before comes again.
  watch(session) {
    this.session = session;
    this.#id = "";
    this.#open();
  }

  #open() {
    clearTimeout(this.#timer);
    this.#source?.close();
    this.#opened = Date.now();
    const q = new URLSearchParams({ workers: "1" });
    const [namespace, id] = parts(this.session);
    if (id) q.set("session", id);
    if (namespace) q.set("namespace", namespace);
    const [since, after] = this.#id.split("-");
    if (after) {
      q.set("since", since);
      q.set("after", after);
    }
    const source = new EventSource(`/api/v1/stream?${q}`);
    this.#source = source;
    const take = (kind, f) =>
      source.addEventListener(kind, (e) => {
        if (source !== this.#source) return;
        this.#id = e.lastEventId || this.#id;
        f(JSON.parse(e.data));
      });
    take("hello", (h) => this.on.hello(h));
    take("observation", (o) => {
      for (const s of o.sessions ?? []) s.session = named(s.namespace, s.session);
      this.heard = Date.now();
      this.on.condition("live", "live");
      this.on.observation(o);
    });
    take("workers", (w) => this.on.workers(w.workers ?? []));
    take("events", (e) => this.on.events((e.events ?? []).map((x) => ({ ...x, session: named(x.namespace, x.session) }))));
    take("trouble", (t) => this.#trouble(t));
    source.onerror = () => {
      if (source !== this.#source) return;
      if (source.readyState !== EventSource.CLOSED) return this.on.condition("wait", "this master does not answer; reconnecting");
      this.#refused(); // the browser gives up when the answer is no stream
    };
  }

  #trouble({ error, code }) {
    if (code !== "NotFound") return this.on.condition("lost", error);
    this.heard = Date.now();
    this.on.condition("live", "live");
    this.on.gone(error);
  }

  // #listen notices a master that keeps the connection and says nothing.
  #listen() {
    const quiet = Date.now() - Math.max(this.heard, this.#opened);
    if (!this.#source || quiet < silence) return;
    this.on.condition("wait", "this master is silent; reconnecting");
    if (quiet > dead) this.#open();
  }

  // #refused finds out why there is no stream, and tries again.
  async #refused() {
    const source = this.#source;
    try {
      const r = await fetch("/api/v1/observation?since=9999999999999", { signal: AbortSignal.timeout(silence) });
      if (r.status === 401) return location.assign(`/login?next=${encodeURIComponent(location.pathname + location.search + location.hash)}`);
      const words = r.ok ? "reconnecting" : (await r.text()).slice(0, 300);
      if (source === this.#source) this.on.condition(r.ok ? "wait" : "lost", r.ok ? words : reason(words));
    } catch {
      if (source === this.#source) this.on.condition("lost", "this master does not answer");
    }
    if (source === this.#source) this.#timer = setTimeout(() => this.#open(), again);
  }
}

function reason(words) {
  try {
    return JSON.parse(words).error;
  } catch {
    return words;
  }
}
