// The playground: call a tool by a form or by raw JSON, follow its progress, answer its questions, cancel it.

import { authorization, get, readEvents } from "./api.js";
import { setQuery } from "./app.js";
import { copyCommand } from "./call.js";
import { after, h, lastOnly, replace, tabs } from "./dom.js";
import { duration, number } from "./format.js";
import { REDACTED, payload, tree } from "./json.js";
import { form } from "./schema.js";

const VERSION = "2026-07-28";
const PAGE = 100;

export default function playground(at) {
  const search = h("input", { type: "search", "aria-label": "Search tools", placeholder: "search tools", autocomplete: "off" });
  const list = h("div.list", { role: "list", tabindex: "0", "aria-label": "Tools" });
  const work = h("div.stack", h("div.panel", h("div.empty", h("b", "Choose a tool"), "Its arguments become a form; or write them as JSON.")));
  const count = h("span.dim", { role: "status" });
  const element = h("div.stack", h("div.head", h("h1", "Playground"), h("p", "Calls go through the gateway like those of any client.")),
    h("div.split.wide-right", h("section.panel", { "aria-label": "Tools" }, h("div.list-head", h("div.row", search, count)), list), work));
  let shown = null;

  const begin = lastOnly();
  async function load() {
    const isLast = begin();
    const { tools, total } = await get(`/catalog?limit=${PAGE}&search=${encodeURIComponent(search.value)}`);
    if (!isLast()) return;
    count.textContent = total > tools.length ? `${number(tools.length)} of ${number(total)}` : `${number(total)} ${total === 1 ? "tool" : "tools"}`;
    replace(list, tools.map((tool) => h("div", { role: "listitem" }, h("button.list-row", { type: "button", "data-row": "", "aria-current": tool.id === shown ? "true" : null, onclick: () => choose(tool.id) }, h("span.cell-name", tool.name), h("span.cell-sub", tool.description ?? "")))));
    if (!tools.length) replace(list, h("div", { role: "listitem" }, h("div.empty", "No tool fits.")));
  }
  async function choose(id, args) {
    shown = id;
    for (const row of list.querySelectorAll("[aria-current]")) row.removeAttribute("aria-current");
    setQuery({ tool: id });
    const [owner, ...rest] = id.split(":");
    const own = rest.join(":");
    try {
      const { entries } = await get(`/upstreams/${encodeURIComponent(owner)}/definitions?list=tools&search=${encodeURIComponent(own)}`);
      const tool = entries.find((entry) => entry.name === own);
      if (!tool) throw new Error("the upstream does not offer this tool any more");
      if (shown === id) replace(work, bench(id, owner, tool, args));
    } catch (error) { if (shown === id) replace(work, h("div.panel", h("div.empty", h("b", id), error.message))); }
  }
  search.addEventListener("input", after(150, load));
  load().catch((error) => replace(list, h("div.empty", error.message)));
  const wanted = at.query.get("tool");
  if (wanted) choose(wanted, at.query.get("args"));
  return { title: "Playground", element };
}

function bench(id, owner, tool, args) {
  let mode = args ? "raw" : "form";
  const made = form(tool.inputSchema);
  const raw = h("textarea.code", { rows: "10", spellcheck: "false", "aria-label": "Arguments as JSON" }, args ? pretty(args) : "{}");
  const rawProblem = h("p.problem", { role: "alert" });
  const place = h("div.panel-body"), out = h("div.stack");
  const show = (next) => { mode = next; replace(place, mode === "form" ? made.element : [raw, rawProblem]); };
  const run = h("button.main", { type: "button" }, "Call");
  const stop = h("button.danger", { type: "button", hidden: true }, "Cancel");
  let abort = null;
  function read() {
    if (mode === "form") {
      const { value, problems } = made.read();
      return problems.length ? null : value;
    }
    try { rawProblem.textContent = ""; return JSON.parse(raw.value); } catch (error) { rawProblem.textContent = `This is not JSON: ${error.message}`; return null; }
  }
  /** A call that is made again has no secrets, because they are not kept. */
  function hasRedacted(value) {
    const has = mode === "raw" && JSON.stringify(value).includes(REDACTED);
    if (has) rawProblem.textContent = `The secrets of the call are not kept: replace ${REDACTED} before you call.`;
    return has;
  }
  run.addEventListener("click", async () => {
    const value = read();
    if (value === null || hasRedacted(value)) return;
    abort = new AbortController();
    run.disabled = true;
    stop.hidden = false;
    await perform(owner, tool, value, out, abort.signal);
    run.disabled = false;
    stop.hidden = true;
  });
  stop.addEventListener("click", () => abort?.abort());
  show(mode);
  return [h("section.panel", { "aria-label": tool.name }, h("div.panel-head", h("h2.wrap", id), h("span.grow"), tabs("Arguments as", [["form", "Form"], ["raw", "Raw JSON"]], mode, show)),
    tool.description ? h("p.panel-body.dim.prose", tool.description.slice(0, 2000)) : null, place,
    h("div.panel-body.row", run, stop, h("button.quiet", { type: "button", onclick: () => { const value = read(); if (value) copyCommand(id, JSON.stringify(value)); } }, "Copy as command"))), out];
}

function pretty(text) {
  try { return JSON.stringify(JSON.parse(text), null, 2); } catch { return text; }
}

/** A header's value: what is not plain text is encoded. */
function header(value) {
  if (/^[\x20-\x7e]*$/.test(value) && value.trim() === value && !value.startsWith("=?base64?")) return value;
  return `=?base64?${btoa(String.fromCharCode(...new TextEncoder().encode(value)))}?=`;
}

/** One logical call: as many rounds as the tool has questions. */
async function perform(owner, tool, args, out, signal) {
  const began = performance.now();
  const progress = h("progress", { "aria-label": "Progress" });
  const status = h("p.dim", { role: "status" }, "Calling…");
  const log = h("div.log", { role: "log", "aria-label": "Messages", hidden: true });
  const asks = h("div"), result = h("div.stack");
  progress.hidden = true;
  replace(out, h("section.panel", { "aria-label": "Result" }, h("div.panel-head", h("h2", "Result"), status, progress), log, asks, result));
  const note = (text) => { log.hidden = false; log.append(h("div", text)); };
  const onMessage = (message) => {
    const { method, params = {} } = message;
    if (method === "notifications/progress") {
      progress.hidden = false;
      if (params.total) { progress.max = params.total; progress.value = params.progress; }
      status.textContent = params.message ?? `${params.progress}${params.total ? ` of ${params.total}` : ""}`;
    } else if (method === "notifications/message") note(typeof params.data === "string" ? params.data : JSON.stringify(params.data));
  };
  try {
    let extra = {};
    for (;;) {
      const answer = await post(owner, tool, args, extra, signal, onMessage);
      if (answer.result?.resultType !== "input_required") { finish(answer); return; }
      status.textContent = "The tool asks a question.";
      const inputResponses = await askAll(answer.result.inputRequests ?? {}, asks, signal);
      replace(asks);
      status.textContent = "Calling…";
      extra = { requestState: answer.result.requestState, inputResponses };
    }
  } catch (error) {
    progress.hidden = true;
    status.textContent = error.name === "AbortError" ? "Cancelled." : `Failed: ${error.message}`;
  }
  function finish(answer) {
    progress.hidden = true;
    const took = duration(performance.now() - began);
    const failed = answer.error ? `error ${answer.error.code}` : answer.result?.isError ? "the tool failed" : null;
    replace(status, h(failed ? "span.badge.bad" : "span.badge.good", failed ?? "ok"), ` ${took}`);
    const body = answer.error ?? answer.result;
    const kept = { text: JSON.stringify(body) };
    const { body: view, forms, start, show } = payload("Result", kept);
    const texts = (body.content ?? []).filter((part) => part.type === "text").map((part) => part.text);
    const images = (body.content ?? []).filter((part) => part.type === "image" && /^image\/(png|jpeg|gif|webp)$/.test(part.mimeType));
    const human = texts.length || images.length;
    const choose = (key) => (key === "content" ? replace(view, texts.map((text) => h("pre", text.slice(0, 200000))), images.map((image) => picture(image))) : show(key));
    replace(result, h("div.list-head", tabs("Form of the result", human ? [["content", "Content"], ...forms] : forms, human ? "content" : start, choose)), view);
    if (human) choose("content");
  }
}

/** Images of an answer are shown only when asked for. */
function picture(image) {
  const box = h("p", h("button", { type: "button", onclick: () => replace(box, h("img", { alt: "Image of the answer", src: `data:${image.mimeType};base64,${image.data}`, width: "400" })) }, `Show image (${image.mimeType})`));
  return box;
}

async function post(owner, tool, args, extra, signal, onMessage) {
  const meta = {
    "io.modelcontextprotocol/protocolVersion": VERSION, "io.modelcontextprotocol/clientCapabilities": { elicitation: { form: {}, url: {} } },
    "io.modelcontextprotocol/clientInfo": { name: "toolyard-dashboard", title: "Toolyard dashboard", version: "1" }, "io.modelcontextprotocol/logLevel": "info", progressToken: crypto.randomUUID(),
  };
  const message = { jsonrpc: "2.0", id: 1, method: "tools/call", params: { name: tool.name, arguments: args, ...extra, _meta: meta } };
  const headers = { ...authorization(), "content-type": "application/json", accept: "application/json, text/event-stream", "mcp-protocol-version": VERSION, "mcp-method": "tools/call", "mcp-name": header(tool.name) };
  for (const [name, part] of Object.entries(tool.inputSchema?.properties ?? {})) {
    const own = part?.["x-mcp-header"], value = args?.[name];
    if (typeof own === "string" && ["string", "number", "boolean"].includes(typeof value)) headers[`mcp-param-${own}`] = header(String(value));
  }
  const response = await fetch(`/mcp/${encodeURIComponent(owner)}`, { method: "POST", headers, body: JSON.stringify(message), signal });
  const type = response.headers.get("content-type") ?? "";
  if (type.startsWith("application/json")) return response.json();
  if (!type.startsWith("text/event-stream")) throw new Error((await response.text()).trim() || `status ${response.status}`);
  let answer = null;
  await readEvents(response, (_, data) => {
    const one = JSON.parse(data);
    if (one.method) onMessage(one);
    else answer = one;
  });
  if (!answer) throw new Error("the connection ended before the answer");
  return answer;
}

const isPage = (request) => request.method === "elicitation/create" && request.params?.mode === "url";

/** The address of a page as text, and a link to it. Only a click opens the page, which cannot reach this one. */
function pageLink(address) {
  const text = h("p", h("code.wrap", String(address)));
  let url;
  try { url = new URL(address); } catch { /* shown as text only */ }
  if (!["http:", "https:"].includes(url?.protocol)) return [text, h("p.problem", "This is not the address of a page, so it cannot be opened.")];
  return [text, h("p", h("a.button", { href: url.href, target: "_blank", rel: "noopener noreferrer" }, `Open the page at ${url.host}`))];
}

/** Asks everything that the tool wants to know. */
function askAll(requests, place, signal) {
  return new Promise((resolve, reject) => {
    signal.addEventListener("abort", () => reject(new DOMException("", "AbortError")));
    const forms = Object.entries(requests).map(([key, request]) => [key, request, form(request.params?.requestedSchema ?? {})]);
    const answer = (actionOf) => {
      const responses = {};
      for (const [key, request, one] of forms) {
        if (request.method !== "elicitation/create") { responses[key] = { action: "decline" }; continue; }
        const action = actionOf;
        if (action !== "accept") { responses[key] = { action }; continue; }
        if (isPage(request)) { responses[key] = { action }; continue; }
        const { value, problems } = one.read();
        if (problems.length) return;
        responses[key] = { action, content: value };
      }
      resolve(responses);
    };
    const accept = forms.every(([, request]) => isPage(request)) ? "Continue" : "Answer";
    const box = h("div.panel-body.note", forms.map(([, request, one]) => h("div", request.method === "elicitation/create" ? h("p.wrap", request.params?.message ?? "") : h("p", `The tool asks for ${request.method}, which the playground does not offer.`, tree(request.params ?? {})), isPage(request) ? pageLink(request.params.url) : one.element)),
      h("div.row", h("button.main", { type: "button", onclick: () => answer("accept") }, accept), h("button", { type: "button", onclick: () => answer("decline") }, "Decline"), h("button.quiet", { type: "button", onclick: () => answer("cancel") }, "Dismiss")));
    replace(place, box);
    box.querySelector("input,select,textarea,a.button,button")?.focus();
  });
}
