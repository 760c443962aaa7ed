// The line on top: what holds the trainers up, in plain words, and the numbers of now.

import { h, byId, text, attribute } from "./dom.js";
import * as f from "./format.js";

export const bottlenecks = {
  BOTTLENECK_UNSPECIFIED: ["measuring", ""],
  NONE: ["idle", ""],
  TRAINER: ["trainers run at full speed", "good"],
  CLIENT: ["client is slow", "warn"],
  NETWORK: ["network is slow", "warn"],
  WORKERS: ["too few workers", "bad"],
  STORAGE: ["storage is slow", "bad"],
  STREAMS: ["too few streams", "warn"],
};

// chip shows a bottleneck in an element.
export function chip(element, bottleneck) {
  const [words, kind] = bottlenecks[bottleneck ?? "BOTTLENECK_UNSPECIFIED"] ?? [bottleneck.toLowerCase(), "warn"];
  attribute(element, "class", `chip ${kind}`);
  text(element, words);
}

let announced;

export function verdict(observed, session) {
  const seen = session ?? observed;
  const words = seen.verdict || "Too little was measured yet.";
  chip(byId("bottleneck"), seen.bottleneck);
  text(byId("verdict"), words.charAt(0).toUpperCase() + words.slice(1));
  if (announced !== seen.bottleneck) text(byId("announce"), words); // its numbers change all the time; what it says does not
  announced = seen.bottleneck;
}

const known = (x, words) => (x > 0 ? words(x) : "not known");

// now shows the numbers of a fleet or a session; p is its newest point.
export function now(observed, fleet, session) {
  const p = fleet ?? { rate: 0, demand: 0, workers: 0, wanted: 0, needed: 0, stall: 0, busy: 0, read: 0, cross: 0, sent: 0 };
  const n = f.num;
  const all = session
    ? [
        ["Delivered", f.rate(n(session.rate)), ""],
        ["Demand", known(n(session.demand), f.demand), ""],
        ["Stall", f.share(n(session.stall)), ""],
        ["Workers", f.workers(n(session.granted)), `of ${known(n(session.needed), f.workers)} needed`],
        ["A row takes", known(n(session.cost), f.seconds), "of a worker"],
        ["Trainers", String((session.trainers ?? []).filter((t) => t.present).length), `of ${(session.trainers ?? []).length}`],
        ["Handed over", f.count(n(session.progress?.rows_delivered)), "rows"],
      ]
    : [
        ["Delivered", f.rate(p.rate), ""],
        ["Demand", known(p.demand, f.demand), ""],
        ["Stall", f.share(p.stall), ""],
        ["Workers", f.whole(p.workers), p.wanted ? `of ${f.whole(p.wanted)} wanted` : p.needed ? `${f.workers(p.needed)} needed` : ""],
        ["Busy", f.share(p.busy), ""],
        ["Storage", f.byteRate(p.read), ""],
        ["Cross-zone", f.byteRate(p.cross), p.sent ? `${f.share(p.cross / p.sent)} of sent` : ""],
      ];
  const list = byId("now");
  while (list.children.length < all.length) list.append(h("div", {}, h("dt"), h("dd", {}, h("span"), " ", h("small"))));
  all.forEach(([name, value, also], i) => {
    const [dt, dd] = list.children[i].children;
    text(dt, name);
    text(dd.firstElementChild, value);
    text(dd.lastElementChild, also);
    attribute(dd, "data-of", name.toLowerCase());
  });
}
