// The charts over time.

import { byId, text } from "./dom.js";
import { Chart, niceBytes } from "./chart.js";
import { num, count, rate, demand, unbounded, needed, byteRate, share, workers, whole, clock } from "./format.js";

const palette = 6;
const least = 3 * 60_000; // that a chart shows, in ms
const line = (name, color, of, style, more) => ({ name, color, of, style, ...more });
const known = (f) => (p) => (f(p) > 0 ? f(p) : null);
const bounded = (x, p) => (unbounded(p.demand) ? Infinity : x);

export class OverTime {
  constructor() {
    const chart = (id, title, format, height, more) => new Chart(byId(id), { title, format, height, axis: format === rate ? count : format, ...more });
    this.rows = chart("chart-rows", "Rows per second", rate, 180, { unit: "rows/s", lines: true });
    this.workers = chart("chart-workers", "Workers", workers, 130, { unit: "workers", least: 2 });
    this.sessions = chart("chart-sessions", "Throughput by session", rate, 180, { unit: "rows/s" });
    this.stall = chart("chart-stall", "Stall", share, 180, { unit: "of trainers' time", least: 0.1 });
    this.bytes = chart("chart-bytes", "Bytes per second", byteRate, 280, { nice: niceBytes });
  }

  show(history, session, minutes) {
    // A young fleet's first minutes fill the charts, too.
    const to = history.now || Date.now(), first = Math.min(history.points[0]?.at ?? 0, to - least);
    const from = Math.max(to - minutes * 60_000, first);
    const own = history.sessions.get(session) ?? [], fleet = history.points;
    const points = session ? own : fleet;
    const flow = [
      line("demand", "demand", known((p) => bounded(p.demand, p)), "dash", { loose: true, words: demand }),
      line("delivered", "rate", (p) => p.rate, "line"),
    ];
    if (!session) flow.unshift(line("capacity", "capacity", known((p) => p.capacity), "area", { loose: true, unfit: true }));
    const marks = [...decisions(history.events), ...losses(history.events)];
    this.rows.show(points, flow, from, to, marks);
    this.workers.show(fleet.length ? points : [], [
      line(session ? "granted" : "workers", "rate", (p) => p.workers, "step"),
      ...(session ? [] : [line("wanted", "c2", known((p) => p.wanted), "step")]),
      line("needed", "demand", known((p) => bounded(p.needed, p)), "dash", { loose: true, words: (x, p) => needed(x, p.demand) }),
    ], from, to, marks);
    this.bytes.show(fleet, [
      line("read from storage", "c0", (p) => p.read), line("sent to trainers", "c2", (p) => p.sent), line("to other zones", "c1", (p) => p.cross),
    ], from, to);
    this.#bySession(history, session, from, to);
  }

  // #bySession draws the sessions with the most rows.
  #bySession(history, session, from, to) {
    const all = history.newest.sessions.filter((s) => !session || s.session === session).sort((a, b) => num(b.rate) - num(a.rate));
    const shown = all.slice(0, palette).sort((a, b) => a.session.localeCompare(b.session, "en", { numeric: true }));
    const times = history.points;
    const at = shown.map((s) => reader(history.sessions.get(s.session) ?? []));
    const lines = (of) => shown.map((s, i) => line(s.session, `c${i}`, (p) => at[i](p.at)?.[of] ?? null));
    text(byId("h-throughput"), `Throughput by session${all.length > shown.length ? `, the ${palette} busiest of ${whole(all.length)}` : ""}`);
    this.sessions.show(times, lines("rate"), from, to);
    this.stall.show(times, [...(session ? [] : [line("all trainers", "capacity", (p) => p.stall, "area")]), ...lines("stall")], from, to);
  }
}

// reader finds the newest point at a time, for times that ascend mostly.
function reader(points) {
  let i = 0;
  return (at) => {
    if (i > 0 && points[i]?.at > at) i = 0;
    while (i + 1 < points.length && points[i + 1].at <= at) i++;
    return points[i] && points[i].at <= at && at - points[i].at < 90_000 ? points[i] : null;
  };
}

// losses are marks of workers that went and were not seen to drain.
function losses(events) {
  return events.filter((e) => e.lost).map((e) => ({ at: num(e.unix_ms), kind: "lost", words: `${clock(num(e.unix_ms))} ${e.words}` }));
}

// decisions are marks of the scaler's events.
function decisions(events) {
  return events.filter((e) => e.decision).map((e) => {
    const from = num(e.decision.from), to = num(e.decision.to);
    const change = from === to ? `stays at ${whole(to)}` : `${whole(from)} to ${whole(to)} workers`;
    return { at: num(e.decision.unix_ms || e.unix_ms), kind: to > from ? "up" : to < from ? "down" : "held", words: `${clock(num(e.unix_ms))} ${change}: ${e.decision.reason ?? e.words}` };
  });
}
