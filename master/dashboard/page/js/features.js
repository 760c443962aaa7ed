// The page of what is read: the datasets, and of the one that the address names its features, which of them are read together, and the
// columns that nobody reads.

import { h, byId, text, attribute } from "./dom.js";
import * as f from "./format.js";
import { Table, bar } from "./table.js";
import { theme } from "./state.js";

const named = 8; // features of a set
const orders = {}; // of the tables
let known = { datasets: [] };

// chosen is what the address says: #uri=s3://bucket/train/&namespace=vision.
const chosen = () => Object.fromEntries(["uri", "namespace"].map((k) => [k, new URLSearchParams(location.hash.slice(1)).get(k) ?? ""]));

function address(part) {
  const q = new URLSearchParams(Object.entries({ ...chosen(), ...part }).filter(([, value]) => value));
  return `#${q}`;
}

const ago = (time) => `${f.ago(Math.max(0, Date.now() - Date.parse(time)) / 1000)} ago`;

// most is the most bytes of a table's rows, which its bars are drawn by.
const most = { features: 1, together: 1 };

function counts(bars) {
  return [
    { key: "sessions", name: "Sessions", num: true, of: (r) => r.sessions, cell: (r, td) => text(td, f.whole(r.sessions)) },
    { key: "rows", name: "Rows", num: true, of: (r) => r.rows, cell: (r, td) => text(td, f.count(r.rows)) },
    { key: "bytes", name: "Bytes", num: true, of: (r) => r.bytes, cell: (r, td) => (bars ? bar(td, r.bytes / most[bars], f.bytes(r.bytes)) : text(td, f.bytes(r.bytes))) },
    { key: "read", name: "Last read", num: true, of: (r) => Date.parse(r.last_read), cell: (r, td) => text(td, ago(r.last_read)) },
  ];
}

function table(name, caption, none, columns, sort) {
  const keep = { get: () => orders[name] ?? "", set: (order) => ((orders[name] = order), draw()) };
  return new Table(byId(`table-${name}`), columns, { caption, none, page: 15, sort, ...keep });
}

function link(row, th) {
  if (!th.firstElementChild) th.append(h("a"));
  text(th.firstElementChild, row.prefix);
  attribute(th.firstElementChild, "href", address({ uri: row.prefix }));
}

// full shows names as long as there is room for them.
function full(row, th) {
  text(th, row.names);
  attribute(th, "title", row.names);
}

const datasets = table("datasets", "Datasets", "No session of this namespace has read anything yet.", [{ key: "prefix", name: "Dataset", of: (r) => r.prefix, cell: link }, ...counts()], "-read");
const features = table("features", "Features", "No feature was read.", [{ key: "name", name: "Feature", of: (r) => f.name(r.name) }, ...counts("features")], "-rows");
const together = table("together", "Features that were read together", "No feature was read.", [{ key: "names", name: "Features", of: (r) => r.names, cell: full }, ...counts("together")], "-rows");
const never = table("never", "Columns that no session read", "All columns of the files were read.", [
  { key: "name", name: "Column", of: (r) => f.name(r.name) },
  { key: "stored", name: "Stored", num: true, of: (r) => r.stored_bytes, cell: (r, td) => text(td, f.bytes(r.stored_bytes)) },
  { key: "why", name: "Why it cannot be a feature", words: true, of: (r) => r.unsupported ?? "" },
], "-stored");

// names are those of a set's features, at most a few.
function names(set, all) {
  const more = set.features.length - named;
  return set.features.slice(0, named).map((i) => f.name(all[i].name)).join(", ") + (more > 0 ? ` and ${f.whole(more)} more` : "");
}

function summary(one) {
  const read = one.columns - one.never.length;
  return `${one.prefix}: ${f.whole(one.sessions)} ${one.sessions === 1 ? "session" : "sessions"} read ${f.count(one.rows)} rows and ${f.bytes(one.bytes)} since ${f.day(Date.parse(one.since))}` + (one.columns ? `; ${f.whole(read)} of ${f.whole(one.columns)} columns` : "");
}

function draw() {
  const { uri } = chosen(), one = uri && !known.trouble ? known.datasets[0] : undefined;
  for (const section of document.querySelectorAll(".one")) section.hidden = !one;
  byId("datasets").hidden = Boolean(uri);
  byId("all").hidden = !uri;
  attribute(byId("all"), "href", address({ uri: "" }));
  text(byId("summary"), known.trouble ?? (one ? summary(one) : "What the sessions of the namespace read, of which datasets."));
  if (one) {
    most.features = Math.max(1, ...one.features.map((r) => r.bytes));
    most.together = Math.max(1, ...one.sets.map((r) => r.bytes));
    features.show(one.features);
    together.show(one.sets.map((s) => ({ ...s, names: names(s, one.features) })));
    never.show(one.never);
  } else {
    datasets.show(known.datasets);
  }
  document.body.dataset.painted = "1";
}

// ask fetches what the address names. Of two that overlap the newer one counts.
let asked = 0;
async function ask() {
  const own = ++asked, { uri, namespace } = chosen();
  byId("namespace").value = namespace;
  const query = new URLSearchParams(Object.entries({ uri, namespace }).filter(([, value]) => value));
  let found;
  try {
    const r = await fetch(`/api/v1/features?${query}`), said = await r.json();
    found = r.ok ? said : { datasets: [], trouble: said.error };
  } catch (e) {
    found = { datasets: [], trouble: `the master does not answer: ${e.message}` };
  }
  if (own !== asked) return;
  known = found;
  draw();
}

byId("namespace").addEventListener("change", (e) => (location.hash = address({ namespace: e.target.value.trim(), uri: "" })));
byId("theme").addEventListener("change", (e) => theme(e.target.value));
byId("theme").value = theme();
for (const form of document.forms) form.addEventListener("submit", (e) => e.preventDefault());
addEventListener("hashchange", ask);
ask();
