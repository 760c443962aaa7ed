// A cell for each of many things, coloured by a number from 0 to 1: 1,000 of them fit on a screen. The pointer or arrow keys read them;
// the table below has the numbers.

import { h, text, attribute, resize, tip, say } from "./dom.js";

export class Heat {
  #items = [];
  #at = -1; // the cell that keys have come to

  // kind is a class of the cells' colour.
  constructor(into, kind = "") {
    this.key = h("p", { class: "key" });
    this.cells = h("div", { class: `heat ${kind}`, role: "img", tabindex: "0" });
    into.append(this.key, this.cells);
    this.cells.addEventListener("pointermove", (e) => {
      const item = this.#items[[...this.cells.children].indexOf(e.target)];
      tip(item?.words ?? "", e.clientX, e.clientY);
    });
    this.cells.addEventListener("pointerleave", () => this.#leave());
    this.cells.addEventListener("blur", () => this.#leave());
    this.cells.addEventListener("keydown", (e) => this.#key(e));
  }

  // show draws items {value, words, state: "" | "gone" | "drains"} and says in words what they are.
  show(items, summary) {
    this.#items = items;
    text(this.key, summary);
    attribute(this.cells, "aria-label", `${summary}. Arrow keys read them one by one.`);
    this.cells.hidden = items.length === 0;
    this.cells.style.setProperty("--cell", items.length > 400 ? "11px" : items.length > 100 ? "14px" : "20px");
    const cells = resize(this.cells, items.length, () => h("i"));
    items.forEach((item, i) => {
      attribute(cells[i], "class", i === this.#at ? `${item.state} here` : item.state);
      cells[i].style.setProperty("--v", `${Math.round(100 * item.value)}%`);
    });
  }

  #key(e) {
    if (e.key === "Escape") return this.#leave();
    const width = [...this.cells.children].findIndex((c) => c.offsetTop > this.cells.firstElementChild.offsetTop);
    const line = width < 0 ? this.#items.length : width;
    const step = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -line, ArrowDown: line, Home: -Infinity, End: Infinity }[e.key];
    if (!step || this.#items.length === 0) return;
    e.preventDefault();
    const at = Math.max(0, Math.min(this.#items.length - 1, this.#at < 0 ? 0 : this.#at + step));
    this.#leave();
    this.#at = at;
    const cell = this.cells.children[at], box = cell.getBoundingClientRect();
    cell.classList.add("here");
    tip(this.#items[at].words, box.left, box.top);
    say(this.#items[at].words);
  }

  #leave() {
    this.cells.children[this.#at]?.classList.remove("here");
    this.#at = -1;
    tip("");
  }
}
