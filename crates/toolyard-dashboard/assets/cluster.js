// The cluster that this gateway is a node of: nodes, how they are reached, and which of them owns what.

import { get } from "./api.js";
import { h, lastOnly, replace } from "./dom.js";
import { duration } from "./format.js";

const column = (text, name = "th") => h(name, { scope: "col" }, text);

function table(label, columns, body) {
  return h("section.panel", { "aria-label": label }, h("div.panel-head", h("h2", label)), h("div.scroll", { tabindex: "0", role: "region", "aria-label": `Table of ${label.toLowerCase()}` }, h("table", h("thead", h("tr", columns)), body)));
}

function link(node) {
  if (!node.link) return "–";
  if (node.link.by === "none") return h("span.bad", `fails: ${node.link.error}`);
  return `${node.link.by === "direct" ? "direct" : "through NATS"}, ${duration(node.link.connectMs)}`;
}

function nodeRow(node) {
  const state = node.self ? "this node" : node.alive ? "alive" : "silent";
  return h("tr", h("td", h("div.cell-name", node.node), h("div.cell-sub", node.address ?? "does not listen")), h("td", state), h("td", link(node)), h("td.num", node.self ? "–" : duration(node.silentMs)), h("td.num.hide-s", String(node.owns)), h("td.hide-s", node.version), h("td", node.sameConfig ? "same" : "differs"));
}

function ownerRow(owner) {
  return h("tr", h("td", h("a", { href: `#/upstream/${encodeURIComponent(owner.id)}` }, owner.id)), h("td", owner.kind), h("td", owner.alive ? owner.node : `${owner.node} (gone)`), h("td.num", String(owner.fence ?? "–")));
}

export default function cluster() {
  const note = h("p"), nodes = h("tbody"), owners = h("tbody");
  const element = h("div.stack", h("div.head", h("h1", "Cluster"), note),
    table("Nodes", [column("Node"), column("State"), column("Link"), column("Lag", "th.num"), column("Owns", "th.num.hide-s"), column("Version", "th.hide-s"), column("Config")], nodes),
    table("Owners", [column("Upstream"), column("Kind"), column("Node"), column("Fence", "th.num")], owners));
  let timer;
  const begin = lastOnly();
  async function load() {
    const isLast = begin();
    try {
      const status = await get("/cluster");
      const problem = status.problem ? ` (${status.problem})` : "";
      const store = status.connected ? "connected to NATS" : `not connected to NATS${problem}`;
      note.textContent = `This is the node ${status.node}, ${store}; its lease is valid for ${duration(status.leaseMsLeft)}.`;
      replace(nodes, status.nodes.map(nodeRow));
      replace(owners, status.owners.length ? status.owners.map(ownerRow) : h("tr", h("td", { colspan: "4" }, h("div.empty", "No node owns anything yet."))));
    } catch (error) {
      note.textContent = error.status === 403 ? "The cluster is for operators: run `toolyard ui` in a terminal to sign in." : error.message;
    }
    if (isLast()) timer = setTimeout(load, document.hidden ? 5000 : 2000);
  }
  load();
  return { title: "Cluster", element, end: () => { begin(); clearTimeout(timer); } };
}
