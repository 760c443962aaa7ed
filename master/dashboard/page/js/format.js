// Numbers in words: tabular, with units, three digits. And names as they can be seen.

const steps = [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]];

function digits(x) {
  if (x === 0) return "0";
  return x >= 99.95 ? x.toFixed(0) : x >= 9.995 ? x.toFixed(1) : x.toFixed(2);
}

// name is one as the commands print it: in quotes, with escapes, if not all of it can be seen on a line.
export function name(words) {
  const escaped = words.replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, (c) => `\\u{${c.codePointAt(0).toString(16)}}`);
  return escaped === words ? words : `"${escaped}"`;
}

// count is 1234567 as "1.23 M".
export function count(x) {
  for (const [size, unit] of steps) if (x >= size * 0.9995) return `${digits(x / size)} ${unit}`;
  return x >= 10 || Number.isInteger(x) ? x.toFixed(0) : digits(x);
}

export const rate = (x) => `${count(x)} rows/s`;

// unbounded tells of a demand that it is no number to go by, for its training loops compute nothing; as master/words has it.
export const unbounded = (demand) => demand >= 1e8;

export const demand = (x) => (unbounded(x) ? "all that comes" : rate(x));

// needed is how many workers a demand takes.
export const needed = (x, demand) => (unbounded(demand) ? "all there are" : x > 0 ? workers(x) : "not known");

// bytes is with powers of 1024, as memory and files are counted.
export function bytes(x) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let i = 0;
  for (; x >= 1023.5 && i < units.length - 1; i++) x /= 1024;
  return `${i === 0 ? x.toFixed(0) : digits(x)} ${units[i]}`;
}

export const byteRate = (x) => `${bytes(x)}/s`;

// share is 0.0123 as "1.2%".
export function share(x) {
  const p = 100 * x;
  return p > 0 && p < 0.05 ? "<0.1%" : p >= 99.95 ? "100%" : `${p.toFixed(p >= 9.95 || p === 0 ? 0 : 1)}%`;
}

// ways is how bytes went to trainers: "75% by link" and "25% by gRPC"; nothing is said of what did not go.
export function ways(sent, lent, linked) {
  const parts = [["in memory", lent], ["by link", linked], ["by gRPC", Math.max(0, sent - lent - linked)]].filter(([, x]) => x > 1e-6 * sent); // rates: what is left may be no whole byte
  return parts.length === 1 ? [`all ${parts[0][0]}`] : parts.map(([way, x]) => `${share(x / sent)} ${way}`);
}

// short leaves the middle of a long name out: how names begin and end tells them apart.
export const short = (name) => (name.length > 36 ? `${name.slice(0, 15)}\u2026${name.slice(-20)}` : name);

export const whole = (x) => Math.round(x).toLocaleString("en-US");

// workers is a number of workers that may be a part of one.
export const workers = (x) => (x > 0 && x < 0.1 ? "<0.1" : Number.isInteger(x) || x >= 100 ? whole(x) : x.toFixed(1));

export function seconds(x) {
  if (x >= 1) return `${digits(x)} s`;
  return x >= 1e-3 ? `${digits(x * 1e3)} ms` : `${digits(x * 1e6)} \u00b5s`;
}

// ago is a number of seconds as "12 s" or "3 min".
export const ago = (x) => (x < 100 ? `${Math.round(x)} s` : x < 6000 ? `${Math.round(x / 60)} min` : `${(x / 3600).toFixed(1)} h`);

export function clock(ms) {
  return new Date(ms).toLocaleTimeString("en-GB");
}

// day is a time of any day.
export const day = (ms) => new Date(ms).toLocaleString("en-GB", { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit" });

// num reads protobuf's JSON, where zero is left out and 64-bit integers are text.
export const num = (x) => Number(x ?? 0);
