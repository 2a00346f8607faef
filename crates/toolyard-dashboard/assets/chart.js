// Small plots, drawn as SVG without a library. Every plot has a sentence for screen readers.

import { s } from "./dom.js";
import { duration } from "./format.js";

/** Latency over the last minutes, with failures as ticks. */
export function spark(samples, width = 120, height = 26) {
  const values = samples?.p50Us ?? [];
  const failed = samples?.failed ?? [];
  const count = Math.max(values.length, 2);
  const most = Math.max(1, ...values.map((value) => value ?? 0));
  const x = (at) => (at / (count - 1)) * width;
  const y = (value) => height - 2 - (Math.log1p(value) / Math.log1p(most)) * (height - 6);
  let path = "", area = "", open = false, start = 0;
  values.forEach((value, at) => {
    if (value === null || value === undefined) {
      if (open) area += `L${x(at - 1).toFixed(1)} ${height}Z`;
      open = false;
      return;
    }
    const point = `${x(at).toFixed(1)} ${y(value).toFixed(1)}`;
    path += `${open ? "L" : "M"}${point}`;
    area += open ? `L${point}` : `M${x(at).toFixed(1)} ${height}L${point}`;
    if (!open) start = at;
    open = true;
  });
  if (open) area += `L${x(values.length - 1).toFixed(1)} ${height}Z`;
  void start;
  const calls = (samples?.calls ?? []).reduce((sum, one) => sum + one, 0);
  const last = [...values].reverse().find((value) => value !== null && value !== undefined);
  const label = calls ? `${calls} calls in the last minutes, median ${duration((last ?? 0) / 1000)}` : "no calls in the last minutes";
  return s("svg.spark", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label, preserveAspectRatio: "none" },
    s("path.area", { d: area || "M0 0" }), s("path", { d: path || `M0 ${height - 1}L${width} ${height - 1}` }),
    failed.map((one, at) => (one ? s("rect.failed", { x: x(at) - 1, y: 0, width: 2, height: 5 }) : null)));
}

/** Calls per sample as bars. */
export function bars(samples, width = 800, height = 130) {
  const calls = samples?.calls ?? [], failed = samples?.failed ?? [];
  const most = Math.max(1, ...calls);
  const step = width / Math.max(calls.length, 1);
  const total = calls.reduce((sum, one) => sum + one, 0);
  return s("svg.chart", { viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: "none", role: "img", "aria-label": `${total} calls over the last ${Math.round(calls.length * (samples?.everySeconds ?? 2) / 60)} minutes, at most ${most} in ${samples?.everySeconds ?? 2} seconds` },
    calls.map((one, at) => one ? s("rect", { x: at * step, y: height - (one / most) * (height - 8), width: Math.max(step - 1, 1), height: (one / most) * (height - 8), fill: "var(--plot)" }) : null),
    failed.map((one, at) => one ? s("rect", { x: at * step, y: height - (one / most) * (height - 8), width: Math.max(step - 1, 1), height: (one / most) * (height - 8), fill: "var(--bad)" }) : null),
    s("line", { x1: 0, x2: width, y1: height - .5, y2: height - .5, stroke: "var(--line)" }));
}

/** Where the time of a call went. */
export function spansOf(call) {
  const total = call.durationMs ?? 0;
  const { queuedMs, hookedMs, passedMs, sentMs, answeredMs, reviewedMs } = call.marks ?? {};
  const spans = [];
  const add = (name, kind, from, to) => { if (from !== null && from !== undefined && to > from) spans.push({ name, kind, from, to }); };
  // Limits come before hooks, and hooks before the other steps; each has a mark only if it is configured.
  if (queuedMs !== null) add("queue of the limits", "queue", 0, queuedMs);
  if (hookedMs !== null) add("hooks before the call", "hooks", queuedMs ?? 0, hookedMs);
  add("steps", "steps", hookedMs ?? queuedMs ?? 0, passedMs ?? total);
  add("waiting for the upstream", "queue", passedMs, sentMs ?? total);
  add("upstream", "upstream", sentMs, answeredMs ?? total);
  if (reviewedMs !== null) add("hooks after the call", "hooks", answeredMs, reviewedMs);
  add("relay", "relay", reviewedMs ?? answeredMs, total);
  return { total, spans };
}
