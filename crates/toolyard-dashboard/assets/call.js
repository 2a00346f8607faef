// One call: where its time went, what was asked and answered, what the steps decided.

import { get } from "./api.js";
import { spansOf } from "./chart.js";
import { copy, h, lastOnly, replace, tabs, toast } from "./dom.js";
import { bytes, duration, statusBadge, time } from "./format.js";
import { REDACTED, lineDiff, parse, payload, pretty } from "./json.js";
import { cancel } from "./calls.js";

export default function call(at, state) {
  const id = at.rest[0] ?? "";
  const body = h("div.stack", h("p.dim", "Loading…"));
  const element = h("div.stack", h("div.head", h("a", { href: "#/calls" }, "Calls"), h("span.dim", "/"), h("h1", `Call ${id}`)), body);
  let timer;
  const begin = lastOnly();
  async function load() {
    const isLast = begin();
    try {
      const one = await get(`/calls/${encodeURIComponent(id)}`);
      if (!isLast()) return;
      replace(body, page(one, state));
      if (one.state === "open") timer = setTimeout(load, 1000);
    } catch (error) {
      replace(body, h("div.panel", h("div.empty", h("b", error.status === 403 ? "Payloads are for operators" : "This call is not kept"), error.status === 403 ? "Run `toolyard ui` in a terminal to sign in." : `${error.message}. Older calls are in the audit, if it is switched on.`)));
    }
  }
  load();
  return { title: `Call ${id}`, element, end: () => { begin(); clearTimeout(timer); } };
}

function page(one, state) {
  const parts = [h("section.panel", { "aria-label": "Summary" }, h("div.panel-head", h("h2", one.tool ?? one.method), statusBadge(one), h("span.grow"), buttons(one)), h("div.panel-body", facts(one)))];
  parts.push(timeline(one));
  if (!one.hasDetails) {
    parts.push(h("p.note", "The payloads of this call were not kept: they are kept only while an operator looks on. Make the call again with this page open."));
    return parts;
  }
  if (one.notes?.length) {
    parts.push(h("section.panel", h("h2", "Steps"), h("div.scroll", { tabindex: "0", role: "region", "aria-label": "Decisions of steps" }, h("table", h("thead", h("tr", h("th", { scope: "col" }, "Step"), h("th", { scope: "col" }, "Decision"), h("th.num", { scope: "col" }, "At"))), h("tbody", one.notes.map((note) => h("tr", h("td", note.step), h("td.wrap", note.text), h("td.num.nowrap", duration(note.atMs)))))))));
  }
  parts.push(h("div.split", part("Request", one.request, one.clientRevision), one.answer ? part("Answer", one.answer, one.upstreamRevision) : h("section.panel", h("h2", "Answer"), h("div.empty", one.state === "open" ? "Not answered yet." : "No answer was kept."))));
  if (one.answer) parts.push(compare(one, state));
  return parts;
}

function facts(one) {
  const pairs = [
    ["Upstream", one.upstream ? h("a", { href: `#/upstream/${encodeURIComponent(one.upstream)}` }, one.upstream) : "–"], ["Method", h("code", one.method)], ["Time", time(one.at)], ["Duration", duration(one.durationMs)],
    ["Client", [one.client?.name, one.client?.version].filter(Boolean).join(" ") || one.session], ["Principal", one.principal], ["View", one.view ? h("code", one.view) : null],
    ["Revisions", one.clientRevision ? `client ${one.clientRevision}, upstream ${one.upstreamRevision ?? "unknown"}` : null], ["Round", one.round > 1 ? String(one.round) : null], ["Made for call", one.parent ? h("a", { href: `#/call/${one.parent}` }, String(one.parent)) : null],
  ];
  return h("dl.facts.wide", pairs.filter(([, value]) => value !== null && value !== undefined).map(([name, value]) => [h("dt", name), h("dd", value)]));
}

function timeline(one) {
  const { total, spans } = spansOf(one);
  if (!spans.length) return null;
  return h("section.panel", h("h2", "Where the time went"), h("div.panel-body", h("div.spans", spans.map((span) => {
    const bar = h("i", { class: span.kind });
    bar.style.left = `${(span.from / total) * 100}%`;
    bar.style.width = `${((span.to - span.from) / total) * 100}%`;
    return [h("span", span.name), h("div.bar", { "aria-hidden": "true" }, bar), h("span.num", duration(span.to - span.from))];
  }))));
}

function part(title, kept, revision) {
  const { body, forms, start, show } = payload(title, kept);
  const note = [bytes(kept.bytes), revision, kept.redacted ? "secrets redacted" : null, kept.whole ? null : "only the beginning is kept"].filter(Boolean).join(" · ");
  return h("section.panel", { "aria-label": title }, h("div.panel-head", h("h2", title), h("span.dim", note), tabs(`Form of the ${title.toLowerCase()}`, forms, start, show), h("button.quiet", { type: "button", onclick: () => copy(kept.text) }, "Copy")), body);
}

/** As a command for a terminal. Single quotes keep the shell out of it. */
export function asCommand(tool, args) {
  const quoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;
  return `toolyard tools call ${/^[\w:.-]+$/.test(tool) ? tool : quoted(tool)} --args ${quoted(args)}`;
}

export async function copyCommand(tool, args) {
  await copy(asCommand(tool, args));
  if (args.includes(REDACTED)) toast(`Copied. Replace ${REDACTED} by the secret before you run it.`);
}

function buttons(one) {
  const params = one.request ? parse(one.request.text).value : null;
  const args = params ? JSON.stringify(params.arguments ?? {}) : null;
  const isTool = one.method === "tools/call" && one.tool;
  return h("div.row",
    one.state === "open" ? h("button.danger", { type: "button", onclick: () => cancel(one.call) }, "Cancel") : null,
    isTool && args ? h("button", { type: "button", onclick: () => copyCommand(one.tool, args) }, "Copy as command") : null,
    isTool && args ? h("a.button", { href: `#/playground?tool=${encodeURIComponent(one.tool)}&args=${encodeURIComponent(args)}` }, "Call again") : null);
}

function compare(one, state) {
  const others = state.ended.filter((other) => other.call && other.call !== one.call && other.hasDetails && other.tool === one.tool).slice(0, 50);
  const out = h("div");
  const choice = h("select", { "aria-label": "Compare with", onchange: async () => {
    replace(out);
    if (!choice.value) return;
    try {
      const other = await get(`/calls/${choice.value}`);
      replace(out, h("div.split", h("div", h("h3.pad", "Request"), lineDiff(pretty(other.request?.text ?? ""), pretty(one.request?.text ?? ""))), h("div", h("h3.pad", "Answer"), lineDiff(pretty(other.answer?.text ?? ""), pretty(one.answer?.text ?? "")))));
    } catch (error) { replace(out, h("p.pad", error.message)); }
  } }, h("option", { value: "" }, others.length ? "choose a call" : "no other call of this tool is kept"), others.map((other) => h("option", { value: other.call }, `${time(other.at)} · call ${other.call} · ${other.status}`)));
  return h("section.panel", h("div.panel-head", h("h2", "Compare"), h("span.grow"), h("div", choice)), out);
}
