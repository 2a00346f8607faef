// The programs that call: open sessions and connections, and what each has called.

import { get } from "./api.js";
import { h, replace } from "./dom.js";
import { ago, duration } from "./format.js";

export default function agents(at, state) {
  const body = h("tbody");
  const element = h("div.stack", h("div.head", h("h1", "Agents"), h("p", "The clients that are connected, what they see and what they have called.")),
    h("section.panel", { "aria-label": "Agents" }, h("div.scroll", { tabindex: "0", role: "region", "aria-label": "Table of agents" }, h("table", h("thead", h("tr", h("th", { scope: "col" }, "Client"), h("th", { scope: "col" }, "Principal"), h("th", { scope: "col" }, "View"), h("th.hide-s", { scope: "col" }, "Revision"), h("th.num", { scope: "col" }, "Calls"), h("th.num.hide-s", { scope: "col" }, "Failed"), h("th.num.hide-s", { scope: "col" }, "Mean"), h("th.num", { scope: "col" }, "Since"))), body))));
  let timer;
  async function load() {
    try {
      const [{ sessions }, { clients = [] }] = await Promise.all([get("/sessions"), get("/report")]);
      const counts = new Map(clients.map((one) => [one.client, one.calls]));
      const known = new Set(sessions.map((one) => one.session));
      const others = clients.filter((one) => !known.has(one.client)).map((one) => ({ session: one.client, principal: one.principal }));
      const all = sessions.concat(others);
      replace(body, all.length ? all.map((one) => {
        const calls = counts.get(one.session);
        return h("tr", h("td", h("div.cell-name", one.client?.title ?? one.client?.name ?? one.session), h("div.cell-sub", one.session)), h("td", one.principal), h("td", one.view ? h("code", one.view) : "–"), h("td.hide-s", one.revision ?? "–"), h("td.num", h("a", { href: `#/calls?q=${encodeURIComponent(`session:${one.session}`)}` }, String(calls?.total ?? 0))), h("td.num.hide-s", String(calls?.failed ?? 0)), h("td.num.hide-s.nowrap", duration(calls?.meanMs)), h("td.num.nowrap", one.since ? ago(one.since) : "–"));
      }) : h("tr", h("td", { colspan: "8" }, h("div.empty", h("b", "No client keeps a session"), "Modern clients send self-contained requests; their calls are under Calls."))));
    } catch (error) { replace(body, h("tr", h("td", { colspan: "8" }, h("div.empty", error.message)))); }
    timer = setTimeout(load, 3000);
  }
  load();
  return { title: "Agents", element, end: () => clearTimeout(timer) };
}
