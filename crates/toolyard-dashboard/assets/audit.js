// The audit: calls of days and weeks, searched in the database of the gateway.

import { authorization, get, offers } from "./api.js";
import { setQuery } from "./app.js";
import { after, h, lastOnly, replace, toast } from "./dom.js";
import { bytes, duration, number, statusBadge, time } from "./format.js";
import { payload } from "./json.js";

const FIELDS = [["tool", "Tool"], ["upstream", "Upstream"], ["principal", "Principal"], ["client", "Client"], ["status", "Status"], ["since", "Since"], ["until", "Until"]];
const PAGE = 100;

export default function audit(at) {
  const inputs = FIELDS.map(([key, name]) => [key, h("input", { id: `audit-${key}`, value: at.query.get(key) ?? "", placeholder: { since: "2h or a date", status: "error, ok…" }[key] ?? "", autocomplete: "off", type: key === "tool" ? "search" : "text" }), name]);
  const body = h("tbody"), count = h("span.dim", { role: "status" }), detail = h("div");
  const more = h("button", { type: "button", hidden: true }, "Older");
  const verify = h("button", { type: "button" }, "Verify"), save = h("button", { type: "button" }, "Export");
  const element = h("div.stack", h("div.head", h("h1", "Audit"), h("span.grow"), verify, save),
    h("form.panel", { role: "search", onsubmit: (event) => event.preventDefault() }, h("div.panel-body.tiles-form", inputs.map(([, input, name]) => h("div.field", h("label", { for: input.id }, name), input)))),
    h("section.panel", { "aria-label": "Records" }, h("div.scroll", { tabindex: "0", role: "region", "aria-label": "Table of records" }, h("table", h("thead", h("tr", h("th", { scope: "col" }, "Time"), h("th", { scope: "col" }, "Call"), h("th", { scope: "col" }, "Status"), h("th.num", { scope: "col" }, "Duration"), h("th.hide-s", { scope: "col" }, "Principal"), h("th.num.hide-m", { scope: "col" }, "Answer"))), body))),
    h("div.row", count, more), detail);
  let records = [];
  const query = () => Object.fromEntries(inputs.map(([key, input]) => [key, input.value.trim()]));
  const asText = (extra = {}) => new URLSearchParams(Object.entries({ ...query(), ...extra }).filter(([, value]) => value !== "")).toString();
  const begin = lastOnly();
  async function load(isMore) {
    const isLast = begin();
    try {
      if (!(await offers("/audit"))) throw Object.assign(new Error(), { status: 404 });
      const before = isMore ? records.at(-1)?.id : "";
      const found = await get(`/audit?${asText({ limit: PAGE, before: before ?? "" })}`);
      if (!isLast()) return;
      records = isMore ? records.concat(found.records) : found.records;
      more.hidden = found.records.length < PAGE;
      count.textContent = `${number(records.length)} of ${number(found.total)} ${found.total === 1 ? "record" : "records"}`;
      if (!records.length) replace(body, h("tr", h("td", { colspan: "6" }, h("div.empty", "No record fits."))));
      else if (isMore) body.append(...found.records.map(row));
      else replace(body, records.map(row));
    } catch (error) {
      if (!isLast()) return;
      const off = error.status === 404;
      replace(body, h("tr", h("td", { colspan: "6" }, h("div.empty", h("b", off ? "The audit is switched off" : error.status === 403 ? "The audit is for operators" : "The audit cannot be read"), off ? "Add a section [audit] to the config to record calls." : error.status === 403 ? "Run `toolyard ui` in a terminal to sign in." : error.message))));
      verify.disabled = save.disabled = true;
    }
  }
  function row(record) {
    return h("tr.pick", { onclick: () => open(record) }, h("td.when", time(record.at)), h("td", h("div.cell-name", h("button.quiet.flat", { type: "button", "data-row": "" }, record.tool ?? record.method)), h("div.cell-sub", record.upstream ?? "")), h("td", statusBadge(record)), h("td.num.nowrap", duration(record.durationMs)), h("td.hide-s", record.principal ?? ""), h("td.num.hide-m.nowrap", bytes(record.answerBytes)));
  }
  function open(record) {
    const parts = ["request", "answer"].filter((key) => record[key]).map((key) => {
      const { body: view } = payload(key, { text: record[key] });
      return h("section.panel", h("h2", key === "request" ? "Request" : "Answer"), view);
    });
    const facts = Object.entries(record).filter(([key, value]) => !["request", "answer"].includes(key) && value !== null && typeof value !== "object");
    replace(detail, h("div.stack", h("section.panel", { tabindex: "-1", "aria-label": `Record ${record.id}` }, h("h2", `Record ${record.id}`), h("div.panel-body", h("dl.facts", facts.map(([key, value]) => [h("dt", key), h("dd", h("code", String(value)))])))), parts));
    detail.querySelector("section").focus();
    detail.scrollIntoView({ block: "nearest" });
  }
  const changed = after(200, () => { setQuery(query()); load(false); });
  for (const [, input] of inputs) input.addEventListener("input", changed);
  more.addEventListener("click", () => load(true));
  verify.addEventListener("click", async () => {
    try { const found = await get("/audit/verify"); toast(found.message); } catch (error) { toast(error.message); }
  });
  save.addEventListener("click", async () => {
    const response = await fetch(`/api/v1/audit/export?${asText()}`, { headers: authorization() });
    if (!response.ok) { toast("The export failed"); return; }
    const link = h("a", { href: URL.createObjectURL(await response.blob()), download: "toolyard-audit.jsonl" });
    link.click();
    URL.revokeObjectURL(link.href);
  });
  load(false);
  return { title: "Audit", element };
}
