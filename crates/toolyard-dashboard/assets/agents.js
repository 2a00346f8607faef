// The programs that call, those that keep a session and those that do not, and what packs do in the background.

import { get } from "./api.js";
import { h, lastOnly, replace } from "./dom.js";
import { ago, duration, isFailure, time } from "./format.js";

const columns = (...names) => h("thead", h("tr", names.map(([name, kind]) => h(`th${kind ?? ""}`, { scope: "col" }, name))));
const panel = (label, head, body) => h("section.panel", { "aria-label": label }, h("h2", label), h("div.scroll", { tabindex: "0", role: "region", "aria-label": `Table of ${label.toLowerCase()}` }, h("table", head, body)));
const empty = (width, title, text) => h("tr", h("td", { colspan: String(width) }, h("div.empty", h("b", title), text)));
const calls = (count, filter) => h("a", { href: `#/calls?q=${encodeURIComponent(filter)}` }, String(count));

/** Clients without a session send self-contained requests: the last calls show them, by program and principal. Calls of
 * sessions that have ended are left out. */
export function callers(ended, known) {
  const found = new Map();
  for (const call of ended.filter((one) => !known.has(one.session) && !/^session-/.test(one.session))) {
    const key = JSON.stringify([call.program ?? null, call.principal]);
    const one = found.get(key) ?? { key, program: call.program, principal: call.principal, calls: 0, failed: 0, took: 0, last: call.at, tools: new Map() };
    one.calls += 1;
    one.failed += isFailure(call) ? 1 : 0;
    one.took += call.durationMs ?? 0;
    if (call.at > one.last) one.last = call.at;
    if (call.tool) one.tools.set(call.tool, (one.tools.get(call.tool) ?? 0) + 1);
    found.set(key, one);
  }
  return [...found.values()].sort((a, b) => b.calls - a.calls);
}

export default function agents() {
  const sessions = h("tbody"), others = h("tbody"), work = h("tbody");
  const element = h("div.stack", h("div.head", h("h1", "Agents"), h("p", "The programs that call tools, and what packs do for them in the background.")),
    panel("Sessions", columns(["Client"], ["Principal"], ["View"], ["Revision", ".hide-s"], ["Calls", ".num"], ["Failed", ".num.hide-s"], ["Mean", ".num.hide-s"], ["Since", ".num"]), sessions),
    panel("Clients without a session", columns(["Client"], ["Principal"], ["Most used", ".hide-s"], ["Calls", ".num"], ["Failed", ".num.hide-s"], ["Mean", ".num.hide-s"], ["Last", ".num"]), others),
    panel("Background work", columns(["Pack"], ["Work"], ["Processes"]), work));
  let timer;

  function drawSessions(all, counts) {
    replace(sessions, all.length ? all.map((one) => {
      const count = counts.get(one.session);
      return h("tr", h("td", h("div.cell-name", one.client?.title ?? one.client?.name ?? one.session), h("div.cell-sub", one.session)), h("td", one.principal), h("td", one.view ? h("code", one.view) : "–"), h("td.hide-s", one.revision ?? "–"), h("td.num", calls(count?.total ?? 0, `session:${one.session}`)), h("td.num.hide-s", String(count?.failed ?? 0)), h("td.num.hide-s.nowrap", duration(count?.meanMs)), h("td.num.nowrap", one.since ? ago(one.since) : "–"));
    }) : empty(8, "No client keeps a session", "Clients of older revisions do, and those that subscribe to changes."));
  }
  function drawOthers(all) {
    replace(others, all.length ? all.map((one) => {
      const most = [...one.tools].sort((a, b) => b[1] - a[1]).slice(0, 3).map(([tool]) => tool).join(", ");
      return h("tr", h("td", h("div.cell-name", one.program ?? "a client that gives no name")), h("td", one.principal), h("td.hide-s.wrap", most || "–"), h("td.num", calls(one.calls, `who:"${one.principal}"`)), h("td.num.hide-s", String(one.failed)), h("td.num.hide-s.nowrap", duration(one.took / one.calls)), h("td.num.nowrap", time(one.last)));
    }) : empty(7, "None of the last calls came from such a client", "Modern clients send self-contained requests."));
  }
  function drawWork(packs) {
    replace(work, packs.length ? packs.map((one) => h("tr", h("td.cell-name", one.pack), h("td.wrap", (one.work ?? []).map((name) => h("div", typeof name === "string" ? name : JSON.stringify(name)))), h("td.wrap", (one.children ?? []).map((child) => h("div", h("code", child.program), child.pid ? ` (process ${child.pid})` : ""))))) : empty(3, "No pack works in the background", "Agents that the agents pack starts, indexes of code and the like appear here."));
  }
  const begin = lastOnly();
  async function load() {
    const isLast = begin();
    try {
      const [{ sessions: open }, { clients = [], packs = [] }, { calls: last }] = await Promise.all([get("/sessions"), get("/report"), get("/calls")]);
      const counts = new Map(clients.map((one) => [one.client, one.calls]));
      const known = new Set(open.map((one) => one.session).concat(clients.map((one) => one.client)));
      const counted = clients.filter((one) => !open.some((other) => other.session === one.client)).map((one) => ({ session: one.client, principal: one.principal }));
      drawSessions(open.concat(counted), counts);
      drawOthers(callers(last.filter((call) => call.state === "ended"), known));
      drawWork(packs);
    } catch (error) { replace(sessions, empty(8, "The clients cannot be read", error.message)); }
    if (isLast()) timer = setTimeout(load, 3000);
  }
  load();
  return { title: "Agents", element, end: () => { begin(); clearTimeout(timer); } };
}
