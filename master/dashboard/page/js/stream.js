// The stream of the fleet: it is opened again by itself, where it ended, and says how it is doing.

const again = 3000; // milliseconds before the next try after a refusal

export class Stream {
  #source = null;
  #timer = 0;
  #id = "";

  // on has observation(o), events(list), and condition(state, words) with state live, wait or lost.
  constructor(on) {
    this.on = on;
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
    const q = new URLSearchParams({ workers: "1" });
    if (this.session) q.set("session", this.session);
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
    take("observation", (o) => {
      this.on.condition("live", "live");
      this.on.observation(o);
    });
    take("events", (e) => this.on.events(e.events ?? []));
    take("trouble", (t) => this.on.condition("lost", t.error));
    source.onerror = () => {
      if (source !== this.#source) return;
      if (source.readyState !== EventSource.CLOSED) return this.on.condition("wait", "reconnecting");
      this.#refused(); // the browser gives up when the answer is no stream
    };
  }

  // #refused finds out why there is no stream, and tries again.
  async #refused() {
    const source = this.#source;
    try {
      const r = await fetch("/api/v1/observation?since=9999999999999");
      if (r.status === 401) return location.assign(`/login?next=${encodeURIComponent(location.pathname)}`);
      const words = r.ok ? "reconnecting" : (await r.text()).slice(0, 300);
      this.on.condition(r.ok ? "wait" : "lost", r.ok ? words : reason(words));
    } catch {
      this.on.condition("lost", "this master does not answer");
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
