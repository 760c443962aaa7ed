// What is shown, as it stands in the address: #session=run-7&range=15&workers=busy.2. A link shows what its sender saw. The browser's
// way back leads from one session or range to the one before; orders and pages of tables are changed in place.

const defaults = { session: "", range: "15", sessions: "", over: "", left: "", trainers: "", workers: "", events: "" };
const listeners = [];
let now = read();

function read() {
  const q = new URLSearchParams(location.hash.slice(1));
  const out = { ...defaults };
  for (const name of Object.keys(defaults)) if (q.has(name)) out[name] = q.get(name);
  if (!["5", "15", "60"].includes(out.range)) out.range = defaults.range;
  return out;
}

export const state = () => now;

// address leads to the page with parts of the state changed, without loading it anew.
export function address(part) {
  const q = new URLSearchParams();
  for (const [name, value] of Object.entries({ ...now, ...part })) if (value !== defaults[name]) q.set(name, value);
  return `#${q}`;
}

// change sets parts of the state, and tells all that listen.
export function change(part) {
  const before = now, hash = address(part), to = hash === "#" ? location.pathname + location.search : hash;
  now = { ...now, ...part };
  if (now.session !== before.session || now.range !== before.range) history.pushState(null, "", to);
  else history.replaceState(null, "", to);
  tell();
}

// rename says what the session that is shown is called in full. Nothing else is shown than before.
export function rename(session) {
  now = { ...now, session };
  history.replaceState(null, "", address({}));
  tell();
}

export function listen(f) {
  listeners.push(f);
}

function tell() {
  for (const f of listeners) f(now);
}

for (const kind of ["hashchange", "popstate"]) {
  addEventListener(kind, () => {
    const before = address({});
    now = read();
    if (address({}) !== before) tell();
  });
}

// The theme is the reader's, not the link's.
export function theme(chosen) {
  if (chosen !== undefined) localStorage.setItem("theme", chosen);
  const is = localStorage.getItem("theme") ?? "auto";
  if (is === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = is;
  return is;
}
