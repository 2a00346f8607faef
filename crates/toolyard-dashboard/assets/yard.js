// The yard: clients, the gateway and its upstreams, live.

import { callers } from "./agents.js";
import { post } from "./api.js";
import { spark } from "./chart.js";
import { h, keyed, replace, s, toast } from "./dom.js";
import { ago, duration, number, stateBadge, stateClass } from "./format.js";

/** The one thing to do about an upstream in its state, if there is one. */
export function action(upstream) {
  if (upstream.id === "yard" || ["app", "instance"].includes(upstream.kind)) return null;
  if (upstream.state === "disabled") return /switched off/.test(upstream.reason ?? "") ? ["enable", "Enable"] : null;
  return upstream.state === "sign-in needed" ? ["sign-in", "Sign in"] : ["restart", "Restart"];
}

/** How long a client without a session counts as there after its last call. */
const RECENT = 10 * 60 * 1000;
/** How many of them are listed; the page Agents has all. */
const MOST_CALLERS = 50;
const clientName = (one) => one.client?.title ?? one.client?.name ?? one.program ?? one.session ?? "a client that gives no name";

export async function act(id, verb) {
  // A browser allows a page to open another one only at the click itself. The new page must not reach this one.
  const opened = verb === "sign-in" ? window.open("about:blank", "_blank") : null;
  if (opened) opened.opener = null;
  try {
    const done = await post(`/upstreams/${encodeURIComponent(id)}/${verb}`);
    if (opened) opened.location.replace(done.url);
    toast(verb === "sign-in" && !opened ? `${done.id}: open ${done.url} to sign in` : `${done.id}: ${done.state}`);
  } catch (error) {
    opened?.close();
    toast(error.message);
  }
}

export default function yard(at, state) {
  const tiles = h("div.tiles");
  const body = h("tbody");
  const clients = h("tbody");
  const picture = h("div.panel-body");
  const clientCount = h("span.dim");
  const note = h("div");
  const element = h("div.stack",
    h("div.head", h("h1", "Yard"), h("p", "What is connected, what runs now, and what needs a look.")),
    note, tiles,
    h("section.panel", { "aria-label": "Upstreams" }, h("h2", "Upstreams"), h("div.scroll", { tabindex: "0", role: "region", "aria-label": "Table of upstreams" }, h("table",
      h("thead", h("tr", h("th", { scope: "col" }, "Name"), h("th", { scope: "col" }, "State"), h("th.num.hide-s", { scope: "col" }, "Tools"), h("th.num", { scope: "col" }, "In flight"), h("th.num.hide-s", { scope: "col" }, "Per minute"), h("th.hide-m", { scope: "col" }, "Latency"), h("th.num.hide-m", { scope: "col" }, "p50 / p99"), h("th", { scope: "col" }, h("span.sr", "Action")))), body))),
    h("div.split",
      h("section.panel", { "aria-label": "Clients" }, h("div.panel-head", h("h2", "Clients"), clientCount), h("div.scroll", { tabindex: "0", role: "region", "aria-label": "Table of clients" }, h("table", h("thead", h("tr", h("th", { scope: "col" }, "Client"), h("th", { scope: "col" }, "View"), h("th.hide-s", { scope: "col" }, "Revision"), h("th.num", { scope: "col" }, "Since"))), clients))),
      h("section.panel", h("h2", "Picture"), picture)));

  function row(one) {
    const cells = { name: h("div.cell-name"), sub: h("div.cell-sub"), state: h("td"), tools: h("td.num.hide-s"), flight: h("td.num"), rate: h("td.num.hide-s"), spark: h("td.hide-m"), time: h("td.num.hide-m.nowrap"), act: h("td.num") };
    const tr = h("tr", h("td", cells.name, cells.sub), cells.state, cells.tools, cells.flight, cells.rate, cells.spark, cells.time, cells.act);
    tr.cells_ = cells;
    replace(cells.name, h("a", { href: `#/upstream/${encodeURIComponent(one.id)}`, "data-row": "" }, one.id));
    return tr;
  }
  function fill(tr, one) {
    const cells = tr.cells_;
    const text = JSON.stringify([one.state, one.reason, one.hint, one.tools, one.callsInFlight, one.latest, one.samples?.calls.length, state.isOperator]);
    if (tr.last === text) return;
    tr.last = text;
    const trouble = ["active", "idle"].includes(one.state) ? null : one.reason;
    cells.sub.className = trouble && one.state !== "disabled" ? "cell-sub bad" : "cell-sub";
    cells.sub.textContent = trouble ? [one.reason, one.hint].filter(Boolean).join("; ") : [one.kind, one.server?.title ?? one.server?.name].filter(Boolean).join(" · ");
    replace(cells.state, stateBadge(one.state));
    cells.tools.textContent = number(one.tools);
    cells.flight.textContent = one.callsInFlight ?? 0;
    cells.rate.textContent = one.latest?.lastMinute ?? 0;
    replace(cells.spark, spark(one.samples));
    const percentile = (value) => (value === null || value === undefined ? "–" : duration(value / 1000));
    const last = (list) => [...(list ?? [])].reverse().find((value) => value !== null && value !== undefined);
    cells.time.textContent = `${percentile(last(one.samples?.p50Us))} / ${percentile(last(one.samples?.p99Us))}`;
    const todo = action(one);
    const had = cells.act.firstChild === document.activeElement;
    replace(cells.act, todo && h("button", { type: "button", disabled: !state.isOperator, title: state.isOperator ? null : "run `toolyard ui` to sign in", "aria-label": `${todo[1]} ${one.id}`, onclick: () => act(one.id, todo[0]) }, todo[1]));
    if (had) cells.act.firstChild?.focus();
  }

  return {
    title: "Yard", element,
    update() {
      const all = [...state.upstreams.values()];
      const sessions = state.sessions;
      const others = recent(state);
      const connected = sessions.length + others.length;
      const status = state.status;
      replace(note, status && !state.isOperator ? h("p.note", "You see states and names. Run ", h("code", "toolyard ui"), " in a terminal to sign in and to restart servers, read payloads and approve calls.") : null);
      if (status) {
        const perMinute = all.reduce((sum, one) => sum + (one.latest?.lastMinute ?? 0), 0);
        const tile = (value, text) => h("div.tile", h("b", String(value)), h("span", text));
        const text = [status.upstreams.active, status.upstreams.total, status.tools, state.open.length, perMinute, connected].join();
        if (tiles.last !== text) {
          tiles.last = text;
          replace(tiles, tile(`${status.upstreams.active} / ${status.upstreams.total}`, "upstreams active"), tile(number(status.tools), "tools"), tile(state.open.length, "calls in flight"), tile(number(perMinute), "calls in the last minute"), tile(connected, connected === 1 ? "client" : "clients"));
        }
      }
      const order = { dead: 0, "sign-in needed": 0, retrying: 1, connecting: 2, starting: 2 };
      all.sort((a, b) => (order[a.state] ?? 3) - (order[b.state] ?? 3) || (a.id === "yard") - (b.id === "yard") || a.id.localeCompare(b.id));
      keyed(body, all, (one) => one.id, row, fill);
      clientCount.textContent = others.length > MOST_CALLERS ? `${others.length - MOST_CALLERS} more are under Agents` : "";
      if (!connected) {
        clients.keyedRows = undefined;
        replace(clients, h("tr", h("td", { colspan: "4" }, h("div.empty", h("b", "No client keeps a session or has called lately"), "Earlier calls are under Calls."))));
      } else {
        if (!clients.keyedRows) replace(clients);
        keyed(clients, [...sessions, ...others.slice(0, MOST_CALLERS)], (one) => one.session ?? one.key, clientRow, (tr, one) => { tr.lastChild.textContent = one.session ? ago(one.since) : `last call ${ago(one.last)} ago`; });
      }
      const text = JSON.stringify([sessions.map((one) => one.session), others.map((one) => one.key), all.map((one) => [one.id, one.state, (one.callsInFlight ?? 0) > 0])]);
      if (picture.last !== text) {
        picture.last = text;
        replace(picture, draw([...sessions, ...others], all));
      }
    },
  };
}

/** Clients without a session that have called lately. */
function recent(state) {
  const known = new Set(state.sessions.map((one) => one.session));
  return callers(state.ended, known).filter((one) => Date.now() - new Date(one.last).getTime() < RECENT);
}

function clientRow(one) {
  const more = [one.client?.version, one.principal].filter(Boolean).join(" · ");
  return h("tr", h("td", h("div.cell-name", clientName(one)), h("div.cell-sub", more)), h("td", one.view ? h("code", one.view) : "–"), h("td.hide-s", one.revision ?? "no session"), h("td.num.nowrap"));
}

/** The same as the tables, as a picture; at most twelve of each. */
function draw(clients, upstreams) {
  const left = clients.slice(0, 12), right = upstreams.slice(0, 12);
  const rows = Math.max(left.length, right.length, 3);
  const height = rows * 34 + 20, middle = height / 2;
  const y = (at, count) => middle + (at - (count - 1) / 2) * 34;
  const short = (text) => (text.length > 20 ? `${text.slice(0, 19)}…` : text);
  const parts = [];
  left.forEach((one, at) => {
    const top = y(at, left.length);
    parts.push(s("path.wire", { d: `M150 ${top}C210 ${top} 200 ${middle} 258 ${middle}` }));
    parts.push(s("circle.dot.good", { cx: 150, cy: top, r: 4 }), s("text", { x: 140, y: top + 4, "text-anchor": "end" }, short(clientName(one))));
  });
  if (!left.length) parts.push(s("text.sub", { x: 130, y: middle + 4, "text-anchor": "end" }, "no clients"));
  right.forEach((one, at) => {
    const top = y(at, right.length);
    const off = ["active", "idle"].includes(one.state) ? "" : ".off";
    parts.push(s(`path.wire${off}${one.callsInFlight ? ".busy" : ""}`, { d: `M342 ${middle}C400 ${middle} 390 ${top} 450 ${top}` }));
    const kind = stateClass(one.state);
    parts.push(s(`circle.dot${kind ? `.${kind}` : ""}`, { cx: 450, cy: top, r: 4 }), s("text", { x: 462, y: top + 4 }, short(one.id)));
  });
  parts.push(s("rect.node.core", { x: 258, y: middle - 20, width: 84, height: 40, rx: 9 }), s("text", { x: 300, y: middle + 4, "text-anchor": "middle" }, "Toolyard"));
  return s("svg.picture", { viewBox: `0 0 620 ${height}`, role: "img", "aria-label": `${clients.length} ${clients.length === 1 ? "client" : "clients"}, the gateway and ${upstreams.length} upstreams; the tables list the same` }, parts);
}
