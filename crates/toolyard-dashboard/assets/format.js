// How values are shown.

import { h } from "./dom.js";

export function duration(ms) {
  if (ms === null || ms === undefined) return "–";
  if (ms < 1) return `${Math.round(ms * 1000)} µs`;
  if (ms < 10) return `${ms.toFixed(1)} ms`;
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 60000) return `${(ms / 1000).toFixed(1)} s`;
  return `${Math.floor(ms / 60000)} min ${Math.round((ms % 60000) / 1000)} s`;
}

/** 10,039 */
export function number(value) {
  return Number(value ?? 0).toLocaleString("en");
}

export function bytes(count) {
  if (count === null || count === undefined) return "–";
  if (count < 1024) return `${count} B`;
  if (count < 1048576) return `${(count / 1024).toFixed(1)} KB`;
  return `${(count / 1048576).toFixed(1)} MB`;
}

export function time(text) {
  const at = new Date(text);
  if (Number.isNaN(at.getTime())) return text ?? "–";
  const clock = at.toLocaleTimeString("en-GB");
  return at.toDateString() === new Date().toDateString() ? clock : `${at.toISOString().slice(0, 10)} ${clock}`;
}

export function ago(text, now = Date.now()) {
  const seconds = Math.max(0, Math.round((now - new Date(text).getTime()) / 1000));
  if (Number.isNaN(seconds)) return "–";
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)} h`;
  return `${Math.floor(seconds / 86400)} d`;
}

const STATES = {
  active: "good", idle: "plain-idle", discovered: "", connecting: "busy", starting: "busy", retrying: "warn", "sign-in needed": "warn", dead: "bad", disabled: "", ended: "",
};
const STATUSES = { ok: "good", answered: "good", open: "busy", cancelled: "", "tool-error": "bad", "protocol-error": "bad", timeout: "bad", failed: "bad", refused: "warn" };

export function stateClass(state) {
  return STATES[state] === "plain-idle" ? "" : STATES[state] ?? "";
}

export function stateBadge(state) {
  const kind = stateClass(state);
  return h(kind ? `span.badge.${kind}` : "span.badge", state ?? "unknown");
}

export function statusOf(call) {
  return call.state === "open" ? "open" : call.status ?? "open";
}

export function statusBadge(call) {
  const status = statusOf(call);
  const kind = STATUSES[status] ?? "";
  const more = call.error ?? call.code;
  return h(kind ? `span.badge.${kind}` : "span.badge", status === "open" ? "under way" : status, more ? `: ${more}` : "");
}

export function isFailure(call) {
  return ["tool-error", "protocol-error", "timeout", "failed", "refused"].includes(call.status);
}
