// A cell for each of many things, coloured by a number from 0 to 1: 1,000 of them fit on a screen. The table below has the numbers.

import { h, text, attribute, resize, tip } from "./dom.js";

export class Heat {
  #items = [];

  // kind is a class of the cells' colour.
  constructor(into, kind = "") {
    this.key = h("p", { class: "key" });
    this.cells = h("div", { class: `heat ${kind}`, role: "img" });
    into.append(this.key, this.cells);
    this.cells.addEventListener("pointermove", (e) => {
      const item = this.#items[[...this.cells.children].indexOf(e.target)];
      tip(item?.words ?? "", e.clientX, e.clientY);
    });
    this.cells.addEventListener("pointerleave", () => tip(""));
  }

  // show draws items {value, words, state: "" | "gone" | "drains"} and says in words what they are.
  show(items, summary) {
    this.#items = items;
    text(this.key, summary);
    attribute(this.cells, "aria-label", summary);
    this.cells.hidden = items.length === 0;
    this.cells.style.setProperty("--cell", items.length > 400 ? "11px" : items.length > 100 ? "14px" : "20px");
    const cells = resize(this.cells, items.length, () => h("i"));
    items.forEach((item, i) => {
      attribute(cells[i], "class", item.state);
      cells[i].style.setProperty("--v", `${Math.round(100 * item.value)}%`);
    });
  }
}
