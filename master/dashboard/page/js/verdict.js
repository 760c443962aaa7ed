// The line on top: what holds the trainers up, in plain words, and the numbers of now.

import { h, byId, text, attribute, resize } from "./dom.js";
import * as f from "./format.js";

export const bottlenecks = {
  BOTTLENECK_UNSPECIFIED: ["measuring", ""],
  NONE: ["nothing is read", ""],
  TRAINER: ["trainers run at full speed", "good"],
  CLIENT: ["client is slow", "warn"],
  NETWORK: ["network is slow", "warn"],
  WORKERS: ["too few workers", "bad"],
  STORAGE: ["storage is slow", "bad"],
  STREAMS: ["too few streams", "warn"],
};

const over = { FINISHED: ["finished", "good"], FAILED: ["failed", "bad"], GONE: ["not there", "warn"] };

// states are those of sessions of which nothing is read.
const states = { ...over, WAITING: ["waiting", ""], IDLE: ["idle", ""], ABANDONED: ["abandoned", "warn"] };

// stateName is what a session's state is called.
export const stateName = (session) => (states[session.state] ?? [(session.state ?? "no answer").toLowerCase()])[0];

// isOver tells of a session that nothing is read of any more.
export const isOver = (session) => session?.state in over;

// isRead tells of a session that trainers read it, or wait for its rows.
export const isRead = (session) => session.bottleneck !== "NONE";

// chip shows in an element what holds a session or the fleet up, or the state of a session that is not read.
export function chip(element, seen) {
  const name = seen.bottleneck ?? "BOTTLENECK_UNSPECIFIED";
  const [words, kind] = states[seen.state] ?? bottlenecks[name] ?? [name.toLowerCase(), "warn"];
  attribute(element, "class", `chip ${kind}`);
  text(element, words);
}

let announced;

export function verdict(seen, about) {
  const words = seen.verdict || "Too little was measured yet.";
  chip(byId("bottleneck"), seen);
  text(byId("verdict"), words.charAt(0).toUpperCase() + words.slice(1));
  const says = `${about} ${seen.state} ${seen.bottleneck}`;
  if (announced !== says) text(byId("announce"), words); // its numbers change all the time; what it says does not
  announced = says;
}

const needs = (x, demand) => (x > 0 ? (f.unbounded(demand) ? "trainers take all that comes" : `${f.workers(x)} needed`) : "");

const known = (x, words) => (x > 0 ? words(x) : "not known");

// now shows the numbers of a fleet or a session; p is its newest point.
export function now(observed, fleet, session) {
  const p = fleet ?? { rate: 0, demand: 0, workers: 0, wanted: 0, needed: 0, stall: 0, busy: 0, read: 0, cross: 0, sent: 0 };
  const n = f.num, came = f.ways(n(session?.bytes_sent), n(session?.bytes_lent), n(session?.bytes_linked));
  const all = isOver(session)
    ? [
        ["State", over[session.state][0], ""],
        ["Handed over", f.count(n(session.progress?.rows_delivered)), "rows"],
        ["Epochs", f.whole(n(session.progress?.epoch)), "closed"],
      ]
    : session
    ? [
        ["Delivered", f.rate(n(session.rate)), ""],
        ["Demand", isRead(session) ? known(n(session.demand), f.demand) : "none", ""],
        ["Stall", f.share(n(session.stall)), ""],
        ["Workers", f.workers(n(session.granted)), needs(n(session.needed), n(session.demand))],
        ["A row takes", known(n(session.cost), f.seconds), "of a worker"],
        ["Trainers", f.whole((session.trainers ?? []).filter((t) => t.present).length), `of ${f.whole(n(session.world_size))}`],
        ["Handed over", f.count(n(session.progress?.rows_delivered)), "rows"],
        ["Batches come", came[0] ?? "not known", came.slice(1).join(", ")],
      ]
    : [
        ["Delivered", f.rate(p.rate), ""],
        ["Demand", known(p.demand, f.demand), ""],
        ["Stall", f.share(p.stall), ""],
        ["Workers", f.whole(p.workers), p.wanted ? `of ${f.whole(p.wanted)} wanted` : p.needed ? needs(p.needed, p.demand) : ""],
        ["Busy", f.share(p.busy), ""],
        ["Storage", f.byteRate(p.read), ""],
        ["Cross-zone", f.byteRate(p.cross), p.sent ? `${f.share(p.cross / p.sent)} of sent` : ""],
      ];
  const list = byId("now");
  resize(list, all.length, () => h("div", {}, h("dt"), h("dd", {}, h("span"), " ", h("small"))));
  all.forEach(([name, value, also], i) => {
    const [dt, dd] = list.children[i].children;
    text(dt, name);
    text(dd.firstElementChild, value);
    text(dd.lastElementChild, also);
    attribute(dd, "data-of", name.toLowerCase());
  });
}
