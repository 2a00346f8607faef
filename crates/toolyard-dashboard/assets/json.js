// JSON as a tree that is made as it is opened, as text in pieces, and as a difference of lines.

import { h, replace } from "./dom.js";

/** How many members of one level are made at once, and how much text. */
const MOST_MEMBERS = 200;
const MOST_TEXT = 20000;

export function parse(text) {
  try { return { value: JSON.parse(text) }; } catch (error) { return { error: error.message }; }
}

/** The text that the gateway shows in place of a secret. */
export const REDACTED = "[redacted]";

/** A payload as a value: JSON, or the list of the messages of an event stream. */
export function read(text) {
  return /^(data|event|id|retry)?:/.test(text) ? { value: messages(text) } : parse(text);
}

/** The messages of an event stream. One that is not JSON, or is cut, is its text. */
function messages(text) {
  const found = text.split(/\r?\n\r?\n/).map((event) => event.split(/\r?\n/).filter((line) => line.startsWith("data:")).map((line) => line.slice(5).replace(/^ /, "")).join("\n"));
  return found.filter((data) => data !== "").map((data) => parse(data).value ?? data);
}

export function pretty(text) {
  const { value, error } = read(text);
  return error ? text : JSON.stringify(value, null, 2);
}

/** A value as a tree. A level is made when it is opened, so a large answer costs nothing until then. */
export function tree(value) {
  const box = h("div.tree");
  box.append(node(null, value, 0));
  return box;
}

function node(key, value, depth) {
  const name = key === null ? [] : [h("span.k", typeof key === "number" ? String(key) : JSON.stringify(key)), ": "];
  if (value === null || typeof value !== "object") return h("div.leaf", name, leaf(value));
  const entries = Array.isArray(value) ? value.map((item, at) => [at, item]) : Object.entries(value);
  const brackets = Array.isArray(value) ? ["[", "]"] : ["{", "}"];
  if (entries.length === 0) return h("div.leaf", name, brackets.join(""));
  const details = h("details", h("summary", name, h("span.dimmed", `${brackets[0]} ${entries.length} ${brackets[1]}`)));
  let made = 0;
  const more = () => {
    const next = entries.slice(made, made + MOST_MEMBERS);
    made += next.length;
    details.querySelector(":scope > button")?.remove();
    details.append(...next.map(([key, item]) => node(key, item, depth + 1)));
    if (made < entries.length) details.append(h("button.quiet", { type: "button", onclick: more }, `${entries.length - made} more`));
  };
  details.addEventListener("toggle", () => { if (details.open && made === 0) more(); });
  if (depth < 2 && entries.length <= 40) { details.open = true; more(); }
  return details;
}

function leaf(value) {
  if (typeof value === "string") return longText(JSON.stringify(value), "s");
  if (typeof value === "number") return h("span.n", String(value));
  return h("span.n", String(value));
}

function longText(text, kind) {
  if (text.length <= MOST_TEXT) return h(`span.${kind}`, text);
  const span = h(`span.${kind}`, text.slice(0, MOST_TEXT));
  return h("span", span, h("button.quiet", { type: "button", onclick: (event) => {
    span.textContent = text.slice(0, span.textContent.length + MOST_TEXT * 10);
    if (span.textContent.length >= text.length) event.target.remove();
  } }, `show more of ${text.length} characters`));
}

/** Text as it is, in pieces. */
export function plain(text) {
  return h("pre", longText(text, "raw"));
}

/** Lines of two texts, by their longest common subsequence; long texts are compared by their lines as sets. */
export function lineDiff(before, after) {
  const a = before.split("\n"), b = after.split("\n");
  const box = h("div.diff");
  const line = (kind, text) => box.append(h(kind ? `div.${kind}` : "div", { "aria-label": kind === "add" ? `added: ${text}` : kind === "del" ? `removed: ${text}` : null, role: kind ? "note" : null }, text || " "));
  if (a.length * b.length > 4e6) {
    const inA = new Set(a), inB = new Set(b);
    a.filter((text) => !inB.has(text)).slice(0, 2000).forEach((text) => line("del", text));
    b.filter((text) => !inA.has(text)).slice(0, 2000).forEach((text) => line("add", text));
    return box;
  }
  const width = b.length + 1;
  const best = new Uint32Array((a.length + 1) * width);
  for (let i = a.length - 1; i >= 0; i--) {
    for (let j = b.length - 1; j >= 0; j--) {
      best[i * width + j] = a[i] === b[j] ? best[(i + 1) * width + j + 1] + 1 : Math.max(best[(i + 1) * width + j], best[i * width + j + 1]);
    }
  }
  let i = 0, j = 0;
  while (i < a.length || j < b.length) {
    if (i < a.length && j < b.length && a[i] === b[j]) { line("", a[i]); i++; j++; }
    else if (j >= b.length || (i < a.length && best[(i + 1) * width + j] >= best[i * width + j + 1])) line("del", a[i++]);
    else line("add", b[j++]);
  }
  return box;
}

/** A payload with a choice of tree and text. */
export function payload(title, part) {
  const body = h("div.payload", { tabindex: "0", role: "region", "aria-label": `Text of the ${title.toLowerCase()}` });
  const { value, error } = read(part.text);
  const show = (form) => replace(body, form === "tree" && !error ? tree(value) : plain(form === "pretty" ? pretty(part.text) : part.text));
  const start = error ? "bytes" : "tree";
  show(start);
  const forms = error ? [["bytes", "Bytes"]] : [["tree", "Tree"], ["pretty", "Formatted"], ["bytes", "Bytes"]];
  return { body, forms, start, show };
}
