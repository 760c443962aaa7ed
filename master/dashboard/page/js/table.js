// A table that sorts by its columns and shows one page of rows, so that it is as usable with 1,000 as with one.

import { h, text, attribute, resize } from "./dom.js";
import { short, whole } from "./format.js";

export class Table {
  #rows = [];

  // columns: {key, name, of: row => value, cell: (row, td) => void, num, words}. The first one names the row.
  // options: caption, none: what stands where there are no rows, page: rows on one, sort: "key" or "-key", get: () => text and set: text => void keep sort and page.
  constructor(into, columns, options) {
    Object.assign(this, { columns, options });
    this.heads = columns.map((c) => h("th", { scope: "col", class: c.num ? "num" : undefined },
      h("button", { type: "button", onclick: () => this.#sortBy(c.key) }, c.name)));
    this.body = h("tbody");
    this.words = h("span");
    this.before = h("button", { type: "button", onclick: () => this.#turn(-1) }, "Previous");
    this.after = h("button", { type: "button", onclick: () => this.#turn(1) }, "Next");
    this.pages = h("nav", { class: "pages", "aria-label": `Pages of ${options.caption}` }, this.before, this.after, this.words);
    this.box = h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": options.caption },
      h("table", {}, h("caption", { class: "hidden" }, options.caption), h("thead", {}, h("tr", {}, ...this.heads)), this.body));
    this.none = options.none ? h("p", { class: "none" }, options.none) : "";
    into.append(this.box, this.none, this.pages);
  }

  // show draws rows as the state says.
  show(rows) {
    this.#rows = rows;
    const { sort, page } = this.#state(), { options } = this;
    const down = sort.startsWith("-"), by = this.columns.find((c) => c.key === sort.replace("-", ""));
    const sorted = [...rows].sort((a, b) => (down ? -1 : 1) * compare(by.of(a), by.of(b)));
    const last = Math.max(0, Math.ceil(rows.length / options.page) - 1), here = Math.min(page, last);
    const shown = sorted.slice(here * options.page, (here + 1) * options.page);
    this.columns.forEach((c, i) => attribute(this.heads[i], "aria-sort", c === by ? (down ? "descending" : "ascending") : null));
    const lines = resize(this.body, shown.length, () => h("tr", {}, ...this.columns.map((c, i) =>
      i === 0 ? h("th", { scope: "row" }) : h("td", { class: c.num ? "num" : c.words ? "words" : undefined }))));
    shown.forEach((row, r) => this.columns.forEach((c, i) => {
      const cell = lines[r].children[i];
      if (c.cell) c.cell(row, cell);
      else this.#text(cell, String(c.of(row)), i === 0);
    }));
    this.box.hidden = rows.length === 0;
    if (this.none) this.none.hidden = rows.length > 0;
    this.pages.hidden = last === 0;
    this.before.disabled = here === 0;
    this.after.disabled = here === last;
    text(this.words, `${whole(here * options.page + 1)} to ${whole(here * options.page + shown.length)} of ${whole(rows.length)}`);
  }

  #text(cell, words, isName) {
    text(cell, isName ? short(words) : words);
    if (isName) attribute(cell, "title", short(words) === words ? null : words);
  }

  #state() {
    const [sort, page] = this.options.get().split(".");
    const known = this.columns.some((c) => c.key === (sort ?? "").replace("-", ""));
    return { sort: known ? sort : this.options.sort, page: Math.max(0, Number(page) || 0) };
  }

  #sortBy(key) {
    const { sort } = this.#state();
    const first = this.columns.find((c) => c.key === key).num ? `-${key}` : key;
    const other = first.startsWith("-") ? key : `-${key}`;
    this.#keep(sort === first ? other : first, 0);
  }

  #turn(by) {
    const { sort, page } = this.#state();
    const last = Math.max(0, Math.ceil(this.#rows.length / this.options.page) - 1);
    this.#keep(sort, Math.max(0, Math.min(page, last) + by));
  }

  #keep(sort, page) {
    this.options.set(sort === this.options.sort && page === 0 ? "" : `${sort}.${page}`);
  }
}

function compare(a, b) {
  if (typeof a === "number" && typeof b === "number") return a - b;
  return String(a).localeCompare(String(b), "en", { numeric: true });
}

// bar fills a cell with a bar and a number.
export function bar(td, value, words, bad = false) {
  if (!td.firstElementChild) td.append(h("span", { class: "bar", "aria-hidden": "true" }, h("i")), h("span"));
  const [box, number] = td.children;
  attribute(box, "class", bad ? "bar bad" : "bar");
  box.firstElementChild.style.width = `${100 * Math.min(1, Math.max(0, value))}%`;
  text(number, words);
}
