// What is shown, as it stands in the address: #session=run-7&range=15&workers=busy.2. A link shows what its sender saw.

const defaults = { session: "", range: "15", sessions: "", trainers: "", workers: "", events: "" };
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

// change sets parts of the state, and tells all that listen.
export function change(part) {
  now = { ...now, ...part };
  const q = new URLSearchParams();
  for (const [name, value] of Object.entries(now)) if (value !== defaults[name]) q.set(name, value);
  history.replaceState(null, "", `${location.pathname}${location.search}${q.size ? `#${q}` : ""}`);
  tell();
}

export function listen(f) {
  listeners.push(f);
}

function tell() {
  for (const f of listeners) f(now);
}

addEventListener("hashchange", () => {
  now = read();
  tell();
});

// The theme is the reader's, not the link's.
export function theme(chosen) {
  if (chosen !== undefined) localStorage.setItem("theme", chosen);
  const is = localStorage.getItem("theme") ?? "auto";
  if (is === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = is;
  return is;
}
