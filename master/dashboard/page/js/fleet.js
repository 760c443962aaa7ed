// Trainers and workers: a heat map of all of them, and a table of one page.

import { byId, text } from "./dom.js";
import * as f from "./format.js";
import { Table, bar } from "./table.js";
import { Heat } from "./heat.js";
import { state, change } from "./state.js";
import { spark } from "./sessions.js";

const n = f.num;

export class Trainers {
  constructor() {
    this.heat = new Heat(byId("heat-trainers"), "stall");
    this.table = new Table(byId("table-trainers"), [
      { key: "rank", name: "Rank", of: (t) => t.id },
      { key: "stall", name: "Stall", num: true, of: (t) => n(t.stall), cell: (t, td) => bar(td, n(t.stall), f.share(n(t.stall)), true) },
      { key: "rate", name: "Takes", num: true, of: (t) => n(t.rate), cell: (t, td) => text(td, f.rate(n(t.rate))) },
      { key: "step", name: "A step takes", num: true, of: (t) => n(t.step_ns), cell: (t, td) => text(td, t.step_ns ? f.seconds(n(t.step_ns) / 1e9) : "not known") },
      { key: "rows", name: "Rows", num: true, of: (t) => n(t.counters?.rows), cell: (t, td) => text(td, f.whole(n(t.counters?.rows))) },
      { key: "failovers", name: "Failovers", num: true, of: (t) => n(t.counters?.failovers) },
      { key: "state", name: "State", of: (t) => (t.present ? "present" : "gone") },
    ], { caption: "Trainers", page: 8, sort: "-stall", get: () => state().trainers, set: (trainers) => change({ trainers }) });
  }

  show(sessions) {
    const several = sessions.length > 1;
    const all = sessions.flatMap((s) => (s.trainers ?? []).map((t) => ({ ...t, id: several ? `${s.session} ${n(t.rank)}` : `${n(t.rank)}` })));
    const waiting = all.filter((t) => n(t.stall) >= 0.01).length;
    this.heat.show(all.map((t) => ({ value: n(t.stall), state: t.present ? "" : "gone", words: `${several ? "" : "rank "}${t.id}: waits ${f.share(n(t.stall))} of its time, ${f.rate(n(t.rate))}` })),
      all.length ? `${f.whole(all.length)} ${all.length === 1 ? "trainer" : "trainers"}, ${f.whole(waiting)} of which wait 1% of their time or more; red is waiting` : "No trainer has come.");
    this.table.show(all);
  }
}

export class Workers {
  constructor() {
    this.heat = new Heat(byId("heat-workers"));
    this.table = new Table(byId("table-workers"), [
      { key: "name", name: "Worker", of: (w) => w.name },
      { key: "busy", name: "Busy", num: true, of: (w) => n(w.busy), cell: (w, td) => bar(td, n(w.busy), f.share(n(w.busy))) },
      { key: "rate", name: "Sends", num: true, of: (w) => n(w.rate), cell: (w, td) => text(td, f.rate(n(w.rate))) },
      { key: "lately", name: "Lately", of: (w) => n(w.rate), cell: (w, td) => spark(td, this.rates.get(w.name) ?? []) },
      { key: "streams", name: "Streams", num: true, of: (w) => n(w.streams), cell: (w, td) => text(td, `${n(w.streams)} of ${n(w.slots)}`) },
      { key: "read", name: "Reads", num: true, of: (w) => n(w.bytes_read), cell: (w, td) => text(td, f.byteRate(n(w.bytes_read))) },
      { key: "memory", name: "Memory", num: true, of: (w) => n(w.memory_bytes), cell: (w, td) => text(td, `${f.bytes(n(w.memory_bytes))} of ${f.bytes(n(w.memory_limit))}`) },
      { key: "zone", name: "Zone", of: (w) => w.zone ?? "" },
      { key: "state", name: "State", of: (w) => (w.draining ? "drains" : "serves") },
      { key: "address", name: "Address", of: (w) => w.address ?? "" },
    ], { caption: "Workers", page: 15, sort: "name", get: () => state().workers, set: (workers) => change({ workers }) });
  }

  show(workers, rates) {
    this.rates = rates;
    const full = workers.filter((w) => n(w.busy) >= 0.95).length, draining = workers.filter((w) => w.draining).length;
    this.heat.show(workers.map((w) => ({ value: n(w.busy), state: w.draining ? "drains" : "", words: `${w.name}: busy ${f.share(n(w.busy))}, ${f.rate(n(w.rate))}${w.draining ? ", drains" : ""}` })),
      workers.length ? `${f.whole(workers.length)} ${workers.length === 1 ? "worker" : "workers"}, ${f.whole(full)} of which are busy 95% of their time or more, and ${f.whole(draining)} drain; blue is busy` : "No worker reports.");
    this.table.show(workers);
  }
}
