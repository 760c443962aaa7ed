// Sessions, how far their epochs are, and where the time of their streams goes.

import { named } from "./names.js";
import { h, s, byId, text, attribute, resize } from "./dom.js";
import * as f from "./format.js";
import { Table, bar } from "./table.js";
import { state, change, address } from "./state.js";
import { chip, stateName, isOver, isRead } from "./verdict.js";

const n = f.num;
const strips = 6; // shown at once

// link names a session, and leads to it.
function link(id, th) {
  if (!th.firstElementChild) th.append(h("a"));
  text(th.firstElementChild, f.short(id));
  attribute(th.firstElementChild, "title", id);
  attribute(th.firstElementChild, "href", address({ session: id }));
}

function chipIn(row, td) {
  if (!td.firstElementChild) td.append(h("span"));
  chip(td.firstElementChild, row);
}

export function sessionsTable() {
  return new Table(byId("table-sessions"), [
    { key: "session", name: "Session", of: (r) => r.session, cell: (r, th) => link(r.session, th) },
    { key: "state", name: "State", of: stateName },
    { key: "why", name: "What holds it up", of: (r) => r.bottleneck ?? "", cell: (r, td) => chipIn({ ...r, state: "" }, td) }, // the state stands beside it
    { key: "stall", name: "Stall", num: true, of: (r) => n(r.stall), cell: (r, td) => bar(td, n(r.stall), f.share(n(r.stall)), true) },
    { key: "rate", name: "Delivered", num: true, of: (r) => n(r.rate), cell: (r, td) => text(td, f.rate(n(r.rate))) },
    { key: "demand", name: "Demand", num: true, of: (r) => n(r.demand), cell: (r, td) => text(td, !isRead(r) ? "none" : r.demand ? f.demand(r.demand) : "not known") },
    { key: "workers", name: "Workers", num: true, of: (r) => n(r.granted), cell: (r, td) => text(td, f.workers(n(r.granted))) },
    { key: "needed", name: "Needed", num: true, of: (r) => n(r.needed), cell: (r, td) => text(td, isRead(r) ? f.needed(n(r.needed), n(r.demand)) : "none") },
    { key: "epoch", name: "Epoch", num: true, of: (r) => n(r.progress?.epoch), cell: (r, td) => text(td, f.whole(n(r.progress?.epoch) + 1)) },
    { key: "done", name: "Done", num: true, of: (r) => epoch(r).done, cell: (r, td) => text(td, f.share(epoch(r).done)) },
  ], { caption: "Sessions", none: "No session is read.", page: 10, sort: "-rate", get: () => state().sessions, set: (sessions) => change({ sessions }) });
}

// Over is the sessions that are over: they stay until they are deleted.
export class Over {
  sessions = []; // all, also those that are read

  constructor() {
    this.box = byId("over");
    this.table = new Table(byId("table-over"), [
      { key: "session", name: "Session", of: (r) => r.id, cell: (r, th) => link(r.id, th) },
      { key: "state", name: "State", of: (r) => r.state, cell: chipIn },
      { key: "opened", name: "Opened", of: (r) => n(r.created_unix), cell: (r, td) => text(td, f.day(1000 * n(r.created_unix))) },
      { key: "rows", name: "Handed over", num: true, of: (r) => n(r.progress?.rows_delivered), cell: (r, td) => text(td, `${f.whole(n(r.progress?.rows_delivered))} rows`) },
      { key: "failure", name: "Why it failed", words: true, of: (r) => r.failure ?? "" },
    ], { caption: "Sessions that are over", page: 5, sort: "-opened", get: () => state().over, set: (over) => change({ over }) });
  }

  // fetch asks for the sessions anew.
  async fetch() {
    const r = await fetch("/api/v1/sessions");
    if (r.ok) this.sessions = ((await r.json()).sessions ?? []).map((s) => ({ ...s, id: named(s.namespace, s.id) }));
  }

  // show draws all of them, or the one that is asked for.
  show(id) {
    const some = this.sessions.filter((s) => isOver(s) && (!id || s.id === id));
    this.box.hidden = some.length === 0;
    this.table.show(some);
  }
}

// LeftOut is the rows that sessions left out, as their on_error allows.
export class LeftOut {
  constructor() {
    this.box = byId("left");
    this.table = new Table(byId("table-left"), [
      { key: "session", name: "Session", of: (r) => r.session, cell: (r, th) => link(r.session, th) },
      { key: "epoch", name: "Epoch", of: (r) => r.epoch, cell: (r, td) => text(td, r.epoch ? f.whole(r.epoch) : "all") },
      { key: "rows", name: "Left out", num: true, of: (r) => r.count, cell: (r, td) => text(td, `${f.whole(r.count)} ${r.what}`) },
      { key: "most", name: "Allowed", num: true, of: (r) => r.most, cell: (r, td) => text(td, f.whole(r.most)) },
      { key: "some", name: "Some of them", words: true, of: (r) => r.some.join("; ") },
    ], { caption: "What is left out", page: 5, sort: "-rows", get: () => state().left, set: (left) => change({ left }) });
  }

  // show draws what all sessions left out, or the one that is asked for. It reports whether one of them is read.
  show(sessions, id) {
    const some = sessions.filter((s) => !id || s.id === id), rows = some.flatMap((s) => [...badRows(s), ...rowGroups(s)]);
    this.box.hidden = rows.length === 0;
    this.table.show(rows);
    return some.some((s) => !isOver(s) && (s.skipped_rows || s.skipped_row_groups));
  }
}

function badRows(s) {
  const most = n(s.spec?.on_error?.skip_rows), named = s.bad_rows ?? [];
  return (s.skipped_rows ?? []).map((e) => ({
    session: s.id, epoch: n(e.epoch) + 1, count: n(e.rows), what: "rows", most,
    some: named.filter((r) => n(r.epoch) === n(e.epoch)).slice(0, 4).map((r) => `${f.name(r.file)} row ${n(r.row)}: ${r.cause}`),
  }));
}

function rowGroups(s) {
  const count = n(s.skipped_row_groups);
  if (count === 0) return [];
  const some = (s.skipped ?? []).map((k) => `${f.name(k.file)} extent ${n(k.row_group)}: ${k.cause}`);
  return [{ session: s.id, epoch: 0, count, what: "extents", most: n(s.spec?.on_error?.skip), some }];
}

const cells = (base64) => Uint8Array.from(atob(base64 ?? ""), (c) => c.charCodeAt(0));

// epoch is how much of a session's epoch is done and held, 0 to 1, altogether and by cell.
export function epoch(session) {
  const done = cells(session.progress?.strip_done), held = cells(session.progress?.strip_held);
  const mean = (xs) => (xs.length ? xs.reduce((a, b) => a + b, 0) / 255 / xs.length : 0);
  return { done: mean(done), held: mean(held), cells: Array.from(done, (d, i) => [d / 255, (held[i] ?? 0) / 255]) };
}

// showEpochs draws a strip for each session that reads most.
export function showEpochs(sessions) {
  const into = byId("epochs");
  const all = [...sessions].sort((a, b) => n(b.rate) - n(a.rate));
  const shown = all.slice(0, strips).sort((a, b) => a.session.localeCompare(b.session, "en", { numeric: true }));
  const words = !shown.length ? "No session is read." : all.length > strips ? `The ${strips} busiest of ${f.whole(all.length)} sessions.` : "Blue was handed over, amber is with trainers, grey is to come.";
  if (into.firstElementChild?.tagName !== "P") into.append(h("p", { class: "key" }), h("div"));
  text(into.firstElementChild, words);
  const boxes = resize(into.lastElementChild, shown.length, () =>
    h("div", { class: "epoch" }, h("p", {}, h("b"), h("span")), h("div", { class: "strip", role: "img" })));
  shown.forEach((session, i) => {
    const e = epoch(session), p = session.progress ?? {};
    const [line, strip] = boxes[i].children;
    const far = `epoch ${f.whole(n(p.epoch) + 1)}: ${f.share(e.done)} done, ${f.share(e.held)} with trainers, ${f.whole(n(p.blocks_planned))} of ${f.whole(n(p.blocks))} blocks planned`;
    text(line.firstElementChild, f.short(session.session));
    attribute(line.firstElementChild, "title", session.session);
    text(line.lastElementChild, far);
    attribute(strip, "aria-label", `${session.session}, ${far}`);
    const bits = resize(strip, e.cells.length, () => h("i"));
    e.cells.forEach(([done, held], c) => {
      bits[c].style.setProperty("--done", `${Math.round(100 * done)}%`);
      bits[c].style.setProperty("--held", `${Math.round(100 * (done + held))}%`);
    });
  });
}

// showStages draws what the streams of sessions were busy with.
export function showStages(sessions) {
  const into = byId("stages"), sum = new Map();
  for (const one of sessions) for (const t of one.stages ?? []) sum.set(t.stage, (sum.get(t.stage) ?? 0) + n(t.seconds));
  const all = [...sum].sort((a, b) => b[1] - a[1]), total = all.reduce((t, [, x]) => t + x, 0);
  if (!into.firstElementChild) {
    into.append(h("p", { class: "key" }), h("div", { class: "stages", "aria-hidden": "true" }), h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Where time goes" },
      h("table", {}, h("caption", { class: "hidden" }, "Where the time of streams goes"),
        h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Stage"), h("th", { scope: "col", class: "num" }, "Share"), h("th", { scope: "col", class: "num" }, "Streams busy with it"))), h("tbody"))));
  }
  const [key, band, box] = into.children, body = box.querySelector("tbody");
  text(key, total > 0 ? "Of the time of all streams that were not held up by trainers or the network." : "No stream is busy.");
  band.hidden = box.hidden = total === 0;
  const parts = resize(band, all.length, () => h("i")), rows = resize(body, all.length, () =>
    h("tr", {}, h("th", { scope: "row" }, h("i", { class: "swatch" }), h("span")), h("td", { class: "num" }), h("td", { class: "num" })));
  all.forEach(([stage, x], i) => {
    const color = `c${Math.min(i, 6)}`;
    attribute(parts[i], "class", color);
    parts[i].style.width = `${(100 * x) / total}%`;
    const [name, part, streams] = rows[i].children;
    attribute(name.firstElementChild, "class", `swatch ${color}`);
    text(name.lastElementChild, stage);
    text(part, f.share(x / total));
    text(streams, x.toFixed(2));
  });
}

// spark draws numbers as a small line.
export function spark(td, values) {
  if (!td.firstElementChild) td.append(s("svg", { class: "spark", viewBox: "0 0 96 18", "aria-hidden": "true" }, s("path", { class: "line" })));
  const most = Math.max(1, ...values);
  const d = values.map((v, i) => `${i ? "L" : "M"}${(96 - 2 * (values.length - 1 - i)).toFixed(0)} ${(17 - (16 * v) / most).toFixed(1)}`).join("");
  attribute(td.firstElementChild.firstElementChild, "d", d || "M0 0");
}
