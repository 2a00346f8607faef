// One upstream: its state, what it offers, what it wrote to stderr, and how its definitions changed.

import { get } from "./api.js";
import { bars } from "./chart.js";
import { after, h, lastOnly, replace, tabs } from "./dom.js";
import { duration, number, stateBadge, time } from "./format.js";
import { lineDiff, tree } from "./json.js";
import { act, action } from "./yard.js";

/** How many entries are asked for at once. */
const PAGE = 200;

export default function upstream(at, state) {
  const id = at.rest[0] ?? "";
  const path = `/upstreams/${encodeURIComponent(id)}`;
  const head = h("div.head", h("a", { href: "#/yard" }, "Yard"), h("span.dim", "/"), h("h1", id));
  const badge = h("span"), buttons = h("div.row"), reason = h("p");
  head.append(badge, h("span.grow"), buttons, reason);
  const facts = h("div.panel-body"), plot = h("div.panel-body"), out = h("div");
  let chosen = at.query.get("tab") ?? "tools";
  const lists = [["tools", "Tools"], ["resources", "Resources"], ["prompts", "Prompts"], ["stderr", "Stderr"], ["history", "History"], ["changes", "Changes"]];
  const bar = tabs("About this upstream", lists, chosen, (key) => { chosen = key; load(); });
  const element = h("div.stack", head,
    h("div.split", h("section.panel", { "aria-label": "Facts" }, h("h2", "State"), facts), h("section.panel", { "aria-label": "Calls over the last minutes" }, h("h2", "Calls, last five minutes"), plot)),
    h("section.panel", h("div.panel-head", bar), out));

  const begin = lastOnly();
  async function made() {
    if (chosen === "stderr") return stderr(await get(`${path}/stderr`));
    if (chosen === "history") return history(await get(path));
    if (chosen === "changes") return changes(await get(`${path}/changes`));
    return definitions(path, chosen, id);
  }
  async function load() {
    const isLast = begin();
    replace(out, h("p.pad.dim", "Loading…"));
    try {
      const part = await made();
      if (isLast()) replace(out, part);
    } catch (error) {
      if (isLast()) replace(out, h("div.empty", h("b", error.status === 403 ? "This is for operators" : "Nothing to show"), error.status === 403 ? "Run `toolyard ui` in a terminal to sign in." : error.message));
    }
  }
  load();
  return {
    title: id, element,
    update() {
      const one = state.upstreams.get(id);
      if (!one) { if (state.status) replace(reason, "There is no such upstream any more."); return; }
      const text = JSON.stringify([one, state.isOperator]);
      if (head.last === text) return;
      head.last = text;
      replace(badge, stateBadge(one.state));
      replace(reason, [one.reason, one.hint].filter(Boolean).join("; "));
      const todo = action(one);
      const button = (verb, name, kind = "button") => h(kind, { type: "button", disabled: !state.isOperator, title: state.isOperator ? null : "run `toolyard ui` to sign in", onclick: () => act(id, verb) }, name);
      const had = buttons.contains(document.activeElement) ? document.activeElement.textContent : null;
      replace(buttons, todo && button(...todo), todo && ["restart", "sign-in"].includes(todo?.[0]) && button("disable", "Disable"), h("a.button", { href: `#/calls?q=${encodeURIComponent(`upstream:${id}`)}` }, "Calls"));
      if (had) [...buttons.children].find((child) => child.textContent === had)?.focus();
      replace(facts, h("dl.facts", [
        ["Kind", one.kind], ["Since", one.since ? time(one.since) : null], ["Server", [one.server?.title ?? one.server?.name, one.server?.version].filter(Boolean).join(" ") || null], ["Revision", one.revision],
        ["In flight", one.callsInFlight], ["Calls", one.calls ? `${one.calls.total}, ${one.calls.failed} failed` : null], ["Mean", one.calls ? duration(one.calls.meanMs) : null], ["Slowest", one.calls ? duration(one.calls.slowestMs) : null],
        ["Left out", one.faults?.length ? h("ul", one.faults.map((fault) => h("li", fault))) : null],
      ].filter(([, value]) => value !== null && value !== undefined).map(([name, value]) => [h("dt", name), h("dd", value instanceof Node ? value : String(value))])));
      replace(plot, bars(one.samples));
    },
  };
}

async function definitions(path, list, id) {
  const box = h("input", { type: "search", "aria-label": `Search ${list}`, placeholder: `search ${list}`, autocomplete: "off" });
  const rows = h("div.list", { role: "list", tabindex: "0", "aria-label": list });
  const detail = h("div", { role: "region", "aria-live": "polite", "aria-label": "Definition" });
  const count = h("span.dim", { role: "status" });
  let offset = 0;
  const begin = lastOnly();
  async function load(isMore) {
    const isLast = begin();
    if (!isMore) { offset = 0; replace(rows); }
    const found = await get(`${path}/definitions?list=${list}&offset=${offset}&limit=${PAGE}&search=${encodeURIComponent(box.value)}`);
    if (!isLast()) return;
    offset += found.entries.length;
    count.textContent = `${number(found.total)} ${found.total === 1 ? list.slice(0, -1) : list}`;
    rows.querySelector("[data-more]")?.remove();
    rows.append(...found.entries.map((entry) => {
      const name = entry.name ?? entry.uri ?? entry.uriTemplate ?? "?";
      const button = h("button.list-row", { type: "button", "data-row": "", onclick: () => { rows.querySelector("[aria-current]")?.removeAttribute("aria-current"); button.setAttribute("aria-current", "true"); replace(detail, define(entry, list, id)); } }, h("span.cell-name", name), h("span.cell-sub", entry.description ?? entry.title ?? ""));
      return h("div", { role: "listitem" }, button);
    }));
    if (offset < found.total) rows.append(h("div", { role: "listitem", "data-more": "" }, h("button.list-row", { type: "button", onclick: () => load(true) }, `${number(found.total - offset)} more`)));
    if (!found.total) replace(rows, h("div", { role: "listitem" }, h("div.empty", `No ${list}.`)));
    if (!isMore) rows.querySelector("button")?.click();
  }
  box.addEventListener("input", after(150, () => load(false)));
  await load(false);
  return h("div.split.wide-right", h("div", h("div.list-head", h("div.row", box, count)), rows), h("div.panel-body", detail));
}

function define(entry, list, id) {
  const { name, description, annotations = {}, ...rest } = entry;
  const badges = Object.entries(annotations).filter(([, value]) => value === true).map(([key]) => h("span.badge.plain", key.replace(/Hint$/, "").replace(/([A-Z])/g, " $1").toLowerCase()));
  return h("div.stack", h("div.row", h("h2.wrap", name ?? rest.uri ?? rest.uriTemplate ?? "?"), badges, h("span.grow"), list === "tools" ? h("a.button", { href: `#/playground?tool=${encodeURIComponent(`${id}:${name}`)}` }, "Try it") : null), description ? h("p.prose", description) : null, tree(rest));
}

function stderr({ lines }) {
  if (!lines.length) return h("div.empty", h("b", "Nothing on stderr"), "Only servers that the gateway starts as processes have a stderr.");
  return h("div.log", { tabindex: "0", role: "log", "aria-label": "stderr" }, lines.map((line) => h("div", h("time", time(line.at)), line.text)));
}

function history(one) {
  if (!one.history?.length) return h("div.empty", "No changes of state yet.");
  return h("div.scroll", { tabindex: "0", role: "region", "aria-label": "History" }, h("table", h("thead", h("tr", h("th", { scope: "col" }, "Time"), h("th", { scope: "col" }, "State"), h("th", { scope: "col" }, "Reason"))), h("tbody", one.history.map((step) => h("tr", h("td.nowrap", time(step.at)), h("td.nowrap", stateBadge(step.to)), h("td.wrap", step.reason ?? ""))))));
}

function changes({ changes: all }) {
  if (!all.length) return h("div.empty", h("b", "No definition has changed"), "Changes since the gateway was started, and since its last run, are listed here.");
  const text = (value) => (value ? JSON.stringify(value, null, 2) : "");
  return h("div.stack.pad", all.map((change) => h("details", h("summary", `${time(change.at)} · ${change.before ? (change.after ? "changed" : "removed") : "added"} · ${change.name}`), lineDiff(text(change.before), text(change.after)))));
}
