// What was observed, as long as the longest range: the fleet's points, those of sessions, and the newest rates of workers.

import { num } from "./format.js";

const keep = 3600_000; // milliseconds
const sparks = 48; // rates kept of a worker

export class History {
  points = [];
  sessions = new Map(); // by id: points
  workers = new Map(); // by name: rates, the newest last
  events = []; // the newest last
  newest = { sessions: [], workers: [] };
  now = 0;

  add(o) {
    this.now = num(o.now_unix_ms);
    this.newest = { verdict: "", sessions: [], ...o, workers: this.newest.workers };
    append(this.points, o.points ?? [], this.now);
    const alive = new Set();
    for (const s of this.newest.sessions) {
      alive.add(s.session);
      if (!this.sessions.has(s.session)) this.sessions.set(s.session, []);
      append(this.sessions.get(s.session), s.points ?? [], this.now);
    }
    for (const id of this.sessions.keys()) if (!alive.has(id)) this.sessions.delete(id);
  }

  // report takes what is known of all workers.
  report(workers) {
    this.newest.workers = workers;
    this.#spark();
  }

  // gone is said of a session that is not there any more.
  gone(verdict) {
    this.newest = { verdict, state: "GONE", sessions: [], workers: [] };
  }

  #spark() {
    const before = this.workers;
    this.workers = new Map();
    for (const w of this.newest.workers) {
      const rates = before.get(w.name) ?? [];
      rates.push(num(w.rate));
      if (rates.length > sparks) rates.shift();
      this.workers.set(w.name, rates);
    }
  }

  happened(events) {
    const last = num(this.events.at(-1)?.number);
    this.events.push(...events.filter((e) => num(e.number) > last));
    if (this.events.length > 1000) this.events.splice(0, this.events.length - 1000);
  }
}

function append(points, more, now) {
  for (const p of more) {
    const at = num(p.unix_ms);
    if (points.length && at <= points.at(-1).at) continue;
    points.push({
      at, workers: num(p.workers), wanted: num(p.wanted), needed: num(p.needed), demand: num(p.demand), capacity: num(p.capacity),
      rate: num(p.rate), stall: num(p.stall), busy: num(p.busy), read: num(p.bytes_read), sent: num(p.bytes_sent), cross: num(p.bytes_cross_zone),
    });
  }
  let old = 0;
  while (old < points.length && points[old].at < now - keep) old++;
  points.splice(0, old);
}
