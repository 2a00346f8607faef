// Calls under way and calls that have ended, with a filter that is part of the address.

import { get, post } from "./api.js";
import { setQuery } from "./app.js";
import { spansOf } from "./chart.js";
import { after, h, keyed, perFrame, replace, toast } from "./dom.js";
import { duration, isFailure, statusBadge, statusOf, time } from "./format.js";

/** How many rows are in the table at once. */
const PAGE = 200;

/** `tool:read status:error duration:>500ms words` as a test for calls. */
export function parseFilter(text) {
  const tests = [];
  for (const [, not, key, quoted, bare] of text.matchAll(/(-?)(?:([a-z]+):)?(?:"([^"]*)"|(\S+))/g)) {
    const value = (quoted ?? bare ?? "").toLowerCase();
    const test = make(key, value);
    tests.push(not ? (call) => !test(call) : test);
  }
  return (call) => tests.every((test) => test(call));
}

function make(key, value) {
  const has = (text) => (text ?? "").toString().toLowerCase().includes(value);
  switch (key) {
    case "upstream": case "server": return (call) => (call.upstream ?? "").toLowerCase() === value || has(call.upstream);
    case "tool": return (call) => has(call.tool);
    case "method": return (call) => has(call.method);
    case "who": case "principal": return (call) => has(call.principal);
    case "session": case "client": return (call) => has(call.session);
    case "status": return (call) => value === "error" ? isFailure(call) : value === "open" ? call.state === "open" : has(statusOf(call)) || has(call.error);
    case "duration": return longer(value);
    default: return (call) => [call.tool, call.upstream, call.method, call.principal, call.session, call.status, call.error].some(has);
  }
}

function longer(value) {
  const found = /^([<>]?)(\d+(?:\.\d+)?)(us|µs|ms|s|min)?$/.exec(value);
  if (!found) return () => false;
  const limit = Number(found[2]) * { us: 0.001, "µs": 0.001, ms: 1, s: 1000, min: 60000 }[found[3] ?? "ms"];
  return (call) => (found[1] === "<" ? call.durationMs < limit : call.durationMs > limit);
}

export default function calls(at, state) {
  const box = h("input", { type: "search", "aria-label": "Filter calls", placeholder: "filter: tool:read status:error duration:>500ms", value: at.query.get("q") ?? "", autocomplete: "off", spellcheck: "false" });
  const body = h("tbody");
  const count = h("span.dim", { role: "status" });
  const more = h("button", { type: "button" }, "Show more");
  const pause = h("button", { type: "button", "aria-pressed": "false" }, "Pause");
  let limit = PAGE, isPaused = false, held = null;
  const element = h("div.stack",
    h("div.head", h("h1", "Calls"), h("span.grow"), h("form.filter", { role: "search", onsubmit: (event) => event.preventDefault() }, box), pause),
    h("section.panel", { "aria-label": "Calls" }, h("div.scroll", { tabindex: "0", role: "region", "aria-label": "Table of calls" }, h("table",
      h("thead", h("tr", h("th", { scope: "col" }, "Time"), h("th", { scope: "col" }, "Call"), h("th", { scope: "col" }, "Status"), h("th.num", { scope: "col" }, "Duration"), h("th.hide-m", { scope: "col" }, h("span.sr", "Duration as a bar")), h("th.hide-s", { scope: "col" }, "Client"))), body))),
    h("div.row", count, more, h("span.dim.hide-s", h("kbd", "/"), " filter ", h("kbd", "j"), " ", h("kbd", "k"), " move ", h("kbd", "Enter"), " open")));

  const draw = perFrame(() => {
    const fits = parseFilter(box.value);
    const all = held ?? [...state.open].reverse().concat(state.ended);
    const found = all.filter(fits);
    const missed = state.missed ? `; ${state.missed} more ended too fast to be listed here` : "";
    count.textContent = `${found.length} of ${all.length} calls${missed}`;
    more.hidden = found.length <= limit;
    const shown = found.slice(0, limit);
    const most = Math.log1p(Math.max(1, ...shown.map((call) => call.durationMs ?? 0)));
    if (!shown.length) {
      body.keyedRows = undefined;
      replace(body, h("tr", h("td", { colspan: "6" }, h("div.empty", h("b", all.length ? "No call fits the filter" : "No calls yet"), all.length ? "Words match names; tool:, upstream:, status:, who:, method: and duration: match fields." : "Calls appear here as clients make them."))));
      return;
    }
    if (!body.keyedRows) replace(body);
    keyed(body, shown, (call) => (call.state === "open" ? `o${call.call}` : `e${call.number}`), row, (tr, call) => update(tr, call, most));
  });
  function row(call) {
    const link = call.call ? `#/call/${call.call}` : null;
    const name = call.tool ?? call.method;
    const tr = h("tr.pick", { onclick: (event) => { if (link && !event.target.closest("a,button")) location.hash = link; } },
      h("td.when", time(call.at)),
      h("td", h("div.cell-name", link ? h("a", { href: link, "data-row": "" }, name) : name), h("div.cell-sub", [call.method !== "tools/call" && call.tool ? call.method : null, call.upstream].filter(Boolean).join(" · "))),
      h("td"), h("td.num.nowrap"), h("td.hide-m", h("div.bar.mini", { "aria-hidden": "true" }, h("i"))), h("td.hide-s", h("div", call.principal), h("div.cell-sub", call.session)));
    return tr;
  }
  function update(tr, call, most) {
    const [, , status, took, bar] = tr.children;
    // A button that is made again loses the focus and a click that is under way.
    const last = JSON.stringify([call.state, statusOf(call), call.error, call.code, state.isOperator]);
    if (tr.last !== last) {
      tr.last = last;
      const todo = call.state === "open" && state.isOperator ? h("button.quiet", { type: "button", "aria-label": `Cancel call ${call.call}`, onclick: () => cancel(call.call) }, "Cancel") : null;
      replace(status, statusBadge(call), todo);
    }
    took.textContent = duration(call.durationMs);
    const share = Math.log1p(call.durationMs ?? 0) / most;
    const { total, spans } = spansOf(call);
    const kept = call.marks ? spans : [{ name: "", kind: "", from: 0, to: total }];
    const drawn = JSON.stringify([share, kept]);
    if (bar.last === drawn) return;
    bar.last = drawn;
    bar.title = call.marks ? spans.map((span) => `${span.name} ${duration(span.to - span.from)}`).join(", ") : "";
    replace(bar.firstChild, kept.map((span) => {
      const inner = h("i", { class: isFailure(call) ? "bad" : span.kind });
      inner.style.left = `${(total ? span.from / total : 0) * share * 100}%`;
      inner.style.width = `${(total ? (span.to - span.from) / total : 0) * share * 100}%`;
      return inner;
    }));
  }
  box.addEventListener("input", after(120, () => { limit = PAGE; setQuery({ q: box.value }); draw(); }));
  more.addEventListener("click", () => { limit += PAGE; draw(); });
  pause.addEventListener("click", () => {
    isPaused = !isPaused;
    held = isPaused ? [...state.open].reverse().concat(state.ended) : null;
    pause.setAttribute("aria-pressed", String(isPaused));
    pause.textContent = isPaused ? "Continue" : "Pause";
    draw();
  });
  get("/calls").then(({ calls: listed }) => {
    const known = new Set(state.ended.map((call) => call.number));
    const older = listed.filter((call) => call.state === "ended" && !known.has(call.number));
    state.ended = state.ended.concat(older).sort((a, b) => b.number - a.number);
    draw();
  }).catch((error) => toast(error.message));
  return { title: "Calls", element, update: draw };
}

export async function cancel(id) {
  try {
    await post(`/calls/${id}/cancel`);
    toast(`Call ${id} was cancelled`);
  } catch (error) {
    toast(error.message);
  }
}
