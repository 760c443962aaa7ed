// The page: what the stream tells goes to the history, and from there to the panels, twice a second at most.

import { h, byId, text, attribute } from "./dom.js";
import { ago } from "./format.js";
import { state, change, rename, listen, theme, address } from "./state.js";
import { Stream } from "./stream.js";
import { parts } from "./names.js";
import { History } from "./history.js";
import { verdict, now, isOver } from "./verdict.js";
import { OverTime } from "./overtime.js";
import { sessionsTable, Over, LeftOut, showEpochs, showStages } from "./sessions.js";
import { Trainers, Workers } from "./fleet.js";
import { Events } from "./events.js";

let history = new History();
let watched = null;
const charts = new OverTime(), sessions = sessionsTable(), over = new Over(), left = new LeftOut(), trainers = new Trainers(), workers = new Workers(), events = new Events();

const stream = new Stream({
  hello: ({ master }) => text(byId("from"), master),
  observation: (o) => {
    const { session: id } = state(), found = o.sessions?.[0]?.session; // of the viewer's own namespace, which the link did not name
    if (id && found && found !== id && o.sessions.length === 1) rename((watched = found));
    history.add(o);
    draw();
  },
  events: (list) => {
    history.happened(list);
    if (list.some((e) => e.kind === "SESSION" || e.kind === "DATA")) over.fetch().then(draw, () => {}); // it is asked again at the next one
    draw();
  },
  workers: (list) => history.report(list), // an observation follows
  gone: (words) => {
    history.gone(words);
    draw();
  },
  condition: (is, words) => {
    text(byId("condition"), words);
    byId("live").dataset.state = document.body.dataset.state = is;
    heard();
  },
});

// heard says how old what is shown is while nothing comes.
function heard() {
  const lost = byId("live").dataset.state !== "live" && stream.heard > 0;
  text(byId("heard"), lost ? `last heard ${ago((Date.now() - stream.heard) / 1000)} ago` : "");
}
setInterval(heard, 1000);

// What a session that is read leaves out is counted on, and events tell of the first rows alone.
let counts = false;
setInterval(() => counts && over.fetch().then(draw, () => {}), 10_000);

let waits = false;
function draw() {
  if (waits) return;
  waits = true;
  requestAnimationFrame(() => {
    waits = false;
    paint();
  });
}

function paint() {
  const { session: id, range } = state();
  const all = history.newest.sessions, session = all.find((s) => s.session === id);
  const some = id ? all.filter((s) => s.session === id) : all;
  options(all, id);
  verdict(session ?? history.newest, id);
  byId("back").hidden = !id;
  text(byId("h-storage"), id ? "Bytes of the whole fleet" : "Bytes");
  document.body.classList.toggle("ended", isOver(session ?? history.newest));
  byId("now").hidden = history.newest.state === "GONE";
  attribute(byId("back"), "href", address({ session: "" }));
  now(history.newest, history.points.at(-1), session);
  charts.show(history, id, Number(range));
  sessions.show(some.filter((s) => !isOver(s)));
  over.show(id);
  counts = left.show(over.sessions, id);
  showEpochs(some);
  showStages(some);
  trainers.show(some);
  workers.show(id ? history.newest.workers.filter((w) => w.sessions?.includes(parts(id)[1])) : history.newest.workers, history.workers);
  events.show(history.events);
  document.body.dataset.painted = String(history.now || (history.newest.state ? 1 : 0));
}

// options are the sessions to choose from, the chosen one among them though it may be gone.
function options(all, chosen) {
  const select = byId("session");
  const ids = [...new Set([...all.map((s) => s.session), ...(chosen ? [chosen] : []), ...[...select.options].slice(1).map((o) => o.value)])].sort((a, b) => a.localeCompare(b, "en", { numeric: true }));
  if (ids.join("\n") !== [...select.options].slice(1).map((o) => o.value).join("\n")) {
    select.replaceChildren(select.options[0], ...ids.map((id) => h("option", { value: id }, id)));
  }
  if (document.activeElement !== select) select.value = chosen;
}

function follow({ session, range }) {
  byId("range").querySelector(`[value="${range}"]`).checked = true;
  byId("session").value = session;
  document.title = session ? `${session} – Penstock` : "Penstock";
  if (watched !== session) {
    watched = session;
    history = new History();
    attribute(document.body, "data-painted", "");
    stream.watch(session);
    scrollTo(0, 0);
    over.fetch().then(draw, () => {});
  }
  draw();
}

byId("session").addEventListener("change", (e) => change({ session: e.target.value }));
byId("range").addEventListener("change", (e) => change({ range: e.target.value }));
byId("theme").addEventListener("change", (e) => theme(e.target.value));
byId("theme").value = theme();
for (const form of document.forms) form.addEventListener("submit", (e) => e.preventDefault());
addEventListener("keydown", (e) => e.key === "/" && !e.target.closest("select, input") && (e.preventDefault(), byId("session").focus()));
listen(follow);
follow(state());
fetch("/api/v1/version").then((r) => r.json()).then((v) => text(byId("version"), `Penstock ${v.version}`)).catch(() => {});
