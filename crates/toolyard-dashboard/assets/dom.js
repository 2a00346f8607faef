// Small helpers around the DOM. Text from servers only ever becomes text nodes and attributes.

/** Makes an element: h("a.button", {href}, "text", child, …). Properties that begin with "on" are listeners. */
export function h(name, ...rest) {
  const [tag, ...classes] = name.split(".");
  const element = document.createElement(tag || "div");
  if (classes.length) element.className = classes.join(" ");
  fill(element, rest);
  return element;
}

/** The same for SVG. */
export function s(name, ...rest) {
  const [tag, ...classes] = name.split(".");
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  if (classes.length) element.setAttribute("class", classes.join(" "));
  fill(element, rest);
  return element;
}

function fill(element, rest) {
  for (const part of rest.flat(Infinity)) {
    if (part === null || part === undefined || part === false || part === true) continue;
    if (part instanceof Node) element.append(part);
    else if (typeof part === "object") set(element, part);
    else element.append(String(part));
  }
}

function set(element, properties) {
  for (const [key, value] of Object.entries(properties)) {
    if (value === null || value === undefined || value === false) continue;
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (key === "value" || key === "checked" || key === "disabled") element[key] = value;
    else if (key === "place") Object.assign(element.style, value);
    else element.setAttribute(key, value === true ? "" : String(value));
  }
}

export function replace(element, ...children) {
  element.replaceChildren(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false)
    .map((child) => (child instanceof Node ? child : document.createTextNode(String(child)))));
}

/** Brings the children of `parent` in line with `items`: rows are made once per key and updated in place. */
export function keyed(parent, items, key, make, update) {
  const known = parent.keyedRows ?? (parent.keyedRows = new Map());
  const seen = new Set();
  let before = parent.firstChild;
  for (const item of items) {
    const id = key(item);
    seen.add(id);
    let row = known.get(id);
    if (!row) {
      row = make(item);
      known.set(id, row);
    }
    update?.(row, item);
    if (row === before) before = before.nextSibling;
    else parent.insertBefore(row, before);
  }
  for (const [id, row] of known) {
    if (!seen.has(id)) {
      row.remove();
      known.delete(id);
    }
  }
}

/** A function that runs at most once per frame. */
export function perFrame(run) {
  let waits = false;
  return () => {
    if (waits) return;
    waits = true;
    requestAnimationFrame(() => { waits = false; run(); });
  };
}

/** Requests of which only the last counts: `const isLast = begin(); await …; if (!isLast()) return;` */
export function lastOnly() {
  let last = 0;
  return () => {
    const number = (last += 1);
    return () => number === last;
  };
}

export function after(wait, run) {
  let timer;
  return (...values) => {
    clearTimeout(timer);
    timer = setTimeout(() => run(...values), wait);
  };
}

let toastTimer;
/** A short message that screen readers announce. */
export function toast(text) {
  const box = document.getElementById("toast");
  box.textContent = text;
  box.classList.add("on");
  clearTimeout(toastTimer);
  toastTimer = setTimeout(() => box.classList.remove("on"), 4000);
}

export async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    toast("Copied");
  } catch {
    const area = h("textarea", { "aria-hidden": "true" }, text);
    document.body.append(area);
    area.select();
    document.execCommand("copy");
    area.remove();
    toast("Copied");
  }
}

/** Tabs with arrow keys. `choose` gets the chosen key. */
export function tabs(label, entries, chosen, choose) {
  const bar = h("div.tabs", { role: "tablist", "aria-label": label });
  const select = (key) => {
    for (const button of bar.children) {
      const is = button.dataset.key === key;
      button.setAttribute("aria-selected", String(is));
      button.tabIndex = is ? 0 : -1;
    }
  };
  for (const [key, text] of entries) {
    bar.append(h("button", { role: "tab", type: "button", "data-key": key, onclick: () => { select(key); choose(key); } }, text));
  }
  bar.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    const all = [...bar.children];
    const next = all[(all.indexOf(document.activeElement) + step + all.length) % all.length];
    next.focus();
    next.click();
  });
  select(chosen);
  return bar;
}
