// Elements, made and changed as little as possible: what did not change keeps its focus and its place.

const svgNS = "http://www.w3.org/2000/svg";

// h makes an element: h("p", {class: "x", onclick: f}, "text", child).
export function h(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

// s makes one of SVG.
export function s(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(svgNS, tag), attributes, children);
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value !== undefined && value !== false) element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children);
  return element;
}

export const byId = (id) => document.getElementById(id);

// text sets an element's text if it is another one.
export function text(element, words) {
  if (element.textContent !== words) element.textContent = words;
}

// attribute sets or, with null, removes.
export function attribute(element, name, value) {
  if (value === null) element.removeAttribute(name);
  else if (element.getAttribute(name) !== String(value)) element.setAttribute(name, value);
}

// resize gives a parent n children, made by make.
export function resize(parent, n, make) {
  while (parent.children.length > n) parent.lastElementChild.remove();
  while (parent.children.length < n) parent.append(make(parent.children.length));
  return parent.children;
}

// tip shows words beside a place on the screen; "" hides them.
export function tip(words, x = 0, y = 0) {
  const box = byId("tip");
  box.hidden = !words;
  if (!words) return;
  text(box, words);
  const { offsetWidth: w, offsetHeight: t } = box;
  box.style.left = `${Math.max(8, Math.min(x + 14, innerWidth - w - 8))}px`;
  box.style.top = `${y + 18 + t > innerHeight ? Math.max(8, y - t - 10) : y + 18}px`;
}

// say has screen readers speak what a key has brought up.
export function say(words) {
  text(byId("said"), words.replaceAll("\n", ", "));
}

// tipped shows an element's words on hover and on focus; Escape hides them.
export function tipped(element, words) {
  const show = (x, y) => tip(words(), x, y);
  element.addEventListener("pointermove", (e) => show(e.clientX, e.clientY));
  element.addEventListener("pointerleave", () => tip(""));
  element.addEventListener("focus", () => {
    const r = element.getBoundingClientRect();
    show(r.left + r.width / 2, r.top + r.height / 2);
  });
  element.addEventListener("blur", () => tip(""));
  element.addEventListener("keydown", (e) => e.key === "Escape" && tip(""));
  return element;
}
