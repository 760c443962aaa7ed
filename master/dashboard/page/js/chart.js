// A chart over time: lines of one unit on one axis. Arrow keys or the pointer move a line that tells the numbers, on all charts of the
// page at once; below it the same numbers stand in a table.

import { h, s, text, attribute, resize, tip, tipped, say } from "./dom.js";
import { clock, short } from "./format.js";

const left = 58, right = 10, bottom = 18, top = 22;
const rows = 24; // of the table
const beyond = 5; // times the next lower one: a line that may leave the axis is drawn up to there
const all = new Set(); // charts, whose crosses stand at the same time

export class Chart {
  #series = [];
  #points = [];
  #from = 0;
  #to = 1;
  #at = -1; // the point that the cross stands at
  #crossAt = 0; // a time
  #marked = [];

  // options: title, height, format, axis: the same without the unit, unit: stands above the axis, least: what the axis has at least, nice: of what its end is a
  // round number, lines: marks are but lines, for a chart below has their buttons.
  constructor(into, options) {
    this.options = options;
    this.svg = s("svg", { tabindex: "0", role: "img", height: options.height });
    this.marks = h("ol", { class: "marks", "aria-label": "Decisions and lost workers" });
    this.legend = h("figcaption");
    this.over = h("p", { class: "beyond" });
    this.table = h("tbody");
    this.head = h("tr");
    this.details = h("details", { class: "data" }, h("summary", {}, `Numbers of: ${options.title}`),
      h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": `Numbers of: ${options.title}` },
        h("table", {}, h("thead", {}, this.head), this.table)));
    into.append(h("figure", {}, this.legend, h("div", { class: "plot" }, this.svg, this.over, this.marks), this.details));
    this.svg.addEventListener("pointermove", (e) => this.#hover(e));
    for (const kind of ["pointerleave", "blur"]) this.svg.addEventListener(kind, () => this.#cross(-1));
    this.svg.addEventListener("keydown", (e) => this.#key(e));
    this.details.addEventListener("toggle", () => this.#fillTable());
    new ResizeObserver(() => this.#draw()).observe(this.svg);
    all.add(this);
  }

  // show draws series of points between two times, and marks {at, words, kind} above them. A series is {name, color, of: point => number
  // or null, style: "line" | "dash" | "area" | "step", loose: it may leave the axis, and be infinite, unfit: the axis does not fit it where
  // there is another one to fit, words: (number, point) => text}.
  show(points, series, from, to, marks = []) {
    const begin = points.findIndex((p) => p.at >= from);
    this.#points = begin < 0 ? [] : points.slice(Math.max(0, begin - 1));
    [this.#series, this.#from, this.#to, this.#marked] = [series, from, to, marks];
    this.#draw();
    this.#fillTable();
  }

  #x(at) {
    return left + ((at - this.#from) / (this.#to - this.#from)) * (this.width - left - right);
  }

  #y(value) {
    return top + (1 - Math.min(1, value / this.max)) * (this.options.height - top - bottom);
  }

  #draw() {
    this.width = this.svg.clientWidth || 600;
    const { height, format } = this.options;
    attribute(this.svg, "viewBox", `0 0 ${this.width} ${height}`);
    this.max = (this.options.nice ?? nice)(this.#most());
    const parts = [];
    for (const part of [0, 0.5, 1]) {
      const y = this.#y(part * this.max);
      parts.push(s("line", { class: "grid", x1: left, x2: this.width - right, y1: y, y2: y }),
        s("text", { x: left - 7, y: y + 4, "text-anchor": "end" }, (this.options.axis ?? format)(part * this.max)));
    }
    if (this.options.unit) parts.push(s("text", { class: "unit", x: 0, y: 10 }, this.options.unit));
    for (const at of ticks(this.#from, this.#to, this.width)) {
      parts.push(s("text", { x: this.#x(at), y: height - 3, "text-anchor": "middle" }, clock(at).slice(0, 5)));
    }
    for (const one of this.#series) parts.push(...this.#line(one));
    if (this.#points.length === 0) {
      parts.push(s("text", { x: (left + this.width - right) / 2, y: this.#y(this.max / 2) - 6, "text-anchor": "middle" }, "No data yet"));
    }
    if (this.options.lines) {
      for (const m of this.#shownMarks()) parts.push(s("line", { class: "mark", x1: this.#x(m.at), x2: this.#x(m.at), y1: 0, y2: height - bottom }));
    }
    this.svg.replaceChildren(s("g", {}, ...parts), this.#crossLine());
    this.#labels();
    this.#placeMarks();
  }

  // #most is what the axis has to hold. Of a demand without bound, or workers that could do many times more, nothing but that is to see:
  // what is loose does not flatten all others.
  #most() {
    const most = this.#mostOf(this.#series.filter((one) => !one.unfit)) || this.#mostOf(this.#series);
    return Math.max(this.options.least ?? 0, most);
  }

  #mostOf(series) {
    const values = series.map((one) => this.#points.map((p) => one.of(p) ?? 0));
    const tops = values.map((some) => Math.max(0, ...some.filter(Number.isFinite))), infinite = values.some((some) => some.includes(Infinity));
    const first = Math.max(0, ...tops), second = Math.max(0, ...tops.toSpliced(tops.indexOf(first), 1));
    const most = second > 0 && series[tops.indexOf(first)].loose ? Math.min(first, beyond * second) : first;
    return infinite ? 1.25 * most : most;
  }

  #line({ of, color, style }) {
    const runs = [[]];
    for (const p of this.#points) {
      const value = of(p);
      if (value === null) runs.push([]); // not known: a gap
      else runs.at(-1).push([Math.max(left, this.#x(p.at)), this.#y(value)]);
    }
    return runs.filter((run) => run.length > 0).map((run) => {
      let d = `M${run[0][0].toFixed(1)} ${run[0][1].toFixed(1)}`;
      for (const [x, y] of run.slice(1)) d += style === "step" ? `H${x.toFixed(1)}V${y.toFixed(1)}` : `L${x.toFixed(1)} ${y.toFixed(1)}`;
      if (style !== "area") return s("path", { class: `line ${style ?? ""} ${color}`, d });
      const floor = this.#y(0).toFixed(1);
      return s("path", { class: `area ${color}`, d: `${d}V${floor}H${run[0][0].toFixed(1)}Z` });
    });
  }

  // #labels are the legend, with the newest numbers, and the chart in words.
  #labels() {
    const last = this.#points.at(-1), { title } = this.options;
    const value = (one) => this.#value(one, last);
    const over = this.#series.filter((one) => one.loose && this.#points.some((p) => one.of(p) > this.max)).map((one) => one.name);
    const entries = resize(this.legend, this.#series.length, () => h("span", { class: "legend" }, h("i"), h("span"), h("b")));
    text(this.over, over.length ? `${over.join(" and ")} goes beyond the chart` : "");
    this.#series.forEach((one, i) => {
      const [swatch, name, number] = entries[i].children;
      attribute(swatch, "class", `${one.color} ${one.style ?? ""}`);
      text(name, short(one.name));
      attribute(name, "title", one.name === short(one.name) ? null : one.name);
      text(number, value(one));
    });
    const words = this.#series.map((one) => `${one.name} ${value(one)}`).join(", ");
    attribute(this.svg, "aria-label", `${title}. ${last ? words : "No data yet"}. Arrow keys read earlier numbers.`);
  }

  #value(one, p) {
    const x = p ? one.of(p) : null;
    return x === null ? "not known" : (one.words ?? this.options.format)(x, p);
  }

  #shownMarks() {
    return this.#marked.filter((m) => m.at >= this.#from && m.at <= this.#to);
  }

  #placeMarks() {
    const shown = this.options.lines ? [] : this.#shownMarks();
    const buttons = resize(this.marks, shown.length, () => {
      const button = h("button", { type: "button" });
      tipped(button, () => button.getAttribute("aria-label"));
      return h("li", {}, button);
    });
    shown.forEach((m, i) => {
      const button = buttons[i].firstElementChild;
      button.style.left = `${this.#x(m.at)}px`;
      button.style.setProperty("--drop", `${this.options.height - bottom - 15}px`);
      attribute(button, "class", m.kind);
      attribute(button, "aria-label", m.words);
    });
    this.marks.hidden = shown.length === 0;
  }

  #hover(e) {
    const box = this.svg.getBoundingClientRect();
    const at = this.#from + ((e.clientX - box.left - left) / (this.width - left - right)) * (this.#to - this.#from);
    let best = -1;
    this.#points.forEach((p, i) => {
      if (best < 0 || Math.abs(p.at - at) < Math.abs(this.#points[best].at - at)) best = i;
    });
    this.#cross(best, e.clientX, e.clientY);
  }

  #key(e) {
    const step = { ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10, Home: -Infinity, End: Infinity }[e.key];
    if (e.key === "Escape") return this.#cross(-1);
    if (!step || this.#points.length === 0) return;
    e.preventDefault();
    const i = this.#at < 0 && Number.isFinite(step) ? this.#points.length - 1 : this.#at + step;
    const box = this.svg.getBoundingClientRect();
    const at = Math.max(0, Math.min(this.#points.length - 1, i));
    this.#cross(at, box.left + this.#x(this.#points[at].at), box.top + top);
    say(this.#words(this.#points[at]));
  }

  #cross(i, x, y) {
    this.#at = i;
    for (const chart of all) chart.#follow(this.#points[i]?.at ?? 0);
    tip(i < 0 ? "" : this.#words(this.#points[i]), x, y);
  }

  #follow(at) {
    this.#crossAt = at;
    this.svg.lastElementChild?.replaceWith(this.#crossLine());
  }

  #crossLine() {
    if (this.#crossAt < this.#from) return s("g");
    const x = Math.max(left, this.#x(this.#crossAt));
    return s("line", { class: "cross", x1: x, x2: x, y1: top, y2: this.options.height - bottom });
  }

  #words(p) {
    return [clock(p.at), ...this.#series.map((one) => `${one.name}: ${this.#value(one, p)}`)].join("\n");
  }

  #fillTable() {
    if (!this.details.open) return;
    this.head.replaceChildren(h("th", { scope: "col" }, "Time"), ...this.#series.map((one) => h("th", { scope: "col", class: "num" }, one.name)));
    const each = Math.max(1, Math.ceil(this.#points.length / rows));
    const shown = this.#points.filter((_, i) => (this.#points.length - 1 - i) % each === 0).reverse();
    this.table.replaceChildren(...shown.map((p) => h("tr", {}, h("th", { scope: "row" }, clock(p.at)),
      ...this.#series.map((one) => h("td", { class: "num" }, one.of(p) === null ? "" : this.#value(one, p))))));
  }
}

// nice is a round number that is not below x.
function nice(x) {
  if (!(x > 0)) return 1;
  const size = 10 ** Math.floor(Math.log10(x));
  return [1, 1.5, 2, 3, 4, 5, 6, 8, 10].find((n) => n * size >= x * 0.999) * size;
}

// niceBytes is the same of 1024.
export function niceBytes(x) {
  const unit = 1024 ** Math.max(0, Math.floor(Math.log(Math.max(1, x)) / Math.log(1024)));
  return x / unit > 500 ? 1024 * unit : nice(x / unit) * unit;
}

// ticks are full minutes that leave each other room.
function ticks(from, to, width) {
  const minutes = [1, 2, 5, 10, 15, 30].find((m) => ((to - from) / 60_000 / m) * 70 < width) ?? 60;
  const each = minutes * 60_000, out = [];
  for (let at = Math.ceil(from / each) * each; at <= to; at += each) out.push(at);
  return out;
}
