// Calls that wait for an operator.

import { get, offers, post } from "./api.js";
import { showApprovals } from "./app.js";
import { h, keyed, lastOnly, replace, toast } from "./dom.js";
import { ago } from "./format.js";
import { tree } from "./json.js";

/** Calls that wait, and tools whose changed definition is held back. */
export function waiting({ calls = [], tools = [] }) {
  return calls.concat(tools).map((one) => ({ ...one, id: one.id ?? `${one.upstream}:${one.tool}` }));
}

export default function approvals(at, state) {
  const list = h("div.stack"), note = h("div");
  const element = h("div.stack", h("div.head", h("h1", "Approvals"), h("p", "Calls and changed tools that are held back until an operator allows or denies them.")), note, list);
  let timer;
  const begin = lastOnly();
  async function load() {
    const isLast = begin();
    try {
      if (!(await offers("/approvals"))) throw Object.assign(new Error(), { status: 404 });
      const all = waiting(await get("/approvals"));
      if (!isLast()) return;
      showApprovals(all.length);
      replace(note, all.length ? null : h("div.panel", h("div.empty", h("b", "Nothing waits for you"), "A call appears here when a rule with do = \"approve\" leaves it to an operator.")));
      keyed(list, all, (one) => one.id, card, (element, one) => { element.querySelector("time").textContent = `${one.at ?? one.since ? `${ago(one.at ?? one.since)} ago` : ""}`; });
    } catch (error) {
      if (!isLast()) return;
      replace(list);
      list.keyedRows = undefined;
      replace(note, h("div.panel", h("div.empty", h("b", error.status === 403 ? "Approvals are for operators" : "No call has to be approved"), error.status === 403 ? "Run `toolyard ui` in a terminal to sign in." : "No rule of this gateway asks an operator.")));
    }
    timer = setTimeout(load, document.hidden ? 5000 : 1000);
  }
  function card(one) {
    const decide = (verb) => async () => {
      try {
        await post(`/approvals/${verb}`, { id: one.id });
        toast(verb === "approve" ? "Allowed" : "Denied");
        clearTimeout(timer);
        load();
      } catch (error) { toast(error.message); }
    };
    const tool = one.tool ?? one.subject ?? one.id;
    const args = h("div", one.cut ? h("p.dim", `The beginning of ${one.bytes} bytes, digest ${one.digest}`) : null, tree(one.arguments ?? one));
    const allow = h("button.main", { type: "button", disabled: !state.isOperator || Boolean(one.cut), onclick: decide("approve") }, "Allow once");
    // A list has long arguments cut. An approval covers all of them, so it is possible once all of them are shown.
    async function showWhole() {
      try {
        replace(args, tree((await get(`/approvals/${encodeURIComponent(one.id)}`)).arguments));
        allow.disabled = !state.isOperator;
      } catch (error) {
        toast(error.message);
        setTimeout(() => args.isConnected && showWhole(), 5000);
      }
    }
    if (one.cut) showWhole();
    return h("section.panel", { "aria-label": `Approval of ${tool}` }, h("div.panel-head", h("h2.wrap", tool), h("span.dim", one.principal ?? ""), h("time.dim"), h("span.grow"), h("div.row", allow, h("button.danger", { type: "button", disabled: !state.isOperator, onclick: decide("deny") }, "Deny"))),
      h("div.panel-body", one.rule ? h("p.dim", `Held by ${one.rule}`) : null, args));
  }
  load();
  // A load that is under way ends with the page.
  return { title: "Approvals", element, end: () => { begin(); clearTimeout(timer); } };
}
