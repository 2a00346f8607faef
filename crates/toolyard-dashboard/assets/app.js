// Starts the dashboard: signs in, follows the gateway, and shows the page that the address names.

import { follow, get, isSignedIn, offers, signIn } from "./api.js";
import { h, replace, toast } from "./dom.js";
import agents from "./agents.js";
import approvals, { waiting } from "./approvals.js";
import audit from "./audit.js";
import call from "./call.js";
import calls from "./calls.js";
import cluster from "./cluster.js";
import config from "./config.js";
import playground from "./playground.js";
import upstream from "./upstream.js";
import yard from "./yard.js";

/** How many calls that have ended a tab keeps. */
const MOST_CALLS = 1000;
/** How many samples are drawn. */
const MOST_SAMPLES = 150;

const PAGES = { yard, calls, call, upstream, playground, approvals, audit, agents, cluster, config };
const NAV = [
  ["yard", "Yard"], ["calls", "Calls"], ["playground", "Playground"], ["approvals", "Approvals"], ["agents", "Agents"], ["audit", "Audit"], ["config", "Config"],
];

/** What is known of the gateway. */
export const state = {
  connection: "connecting", status: null, upstreams: new Map(), open: [], ended: [], missed: 0, sessions: [], approvals: 0,
  get isOperator() { return isSignedIn(); },
};

let shown = null;
let ticks = 0;

export function route() {
  const [path, query = ""] = location.hash.replace(/^#\/?/, "").split("?");
  const [name, ...rest] = path.split("/").map(decodeURIComponent);
  return { name: PAGES[name] ? name : "yard", rest, query: new URLSearchParams(query) };
}

/** Puts a query into the address, so that it can be shared, without another page in the history. */
export function setQuery(values) {
  const { name, rest } = route();
  const query = new URLSearchParams(Object.entries(values).filter(([, value]) => value));
  const text = query.toString();
  history.replaceState(null, "", `#/${[name, ...rest].map(encodeURIComponent).join("/")}${text ? `?${text}` : ""}`);
}

function show() {
  const at = route();
  shown?.end?.();
  for (const link of document.querySelectorAll("#nav a")) {
    const is = link.dataset.page === at.name || (at.name === "call" && link.dataset.page === "calls") || (at.name === "upstream" && link.dataset.page === "yard");
    if (is) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  const main = document.getElementById("main");
  const page = PAGES[at.name](at, state);
  replace(main, page.element);
  document.title = `${page.title} · Toolyard`;
  shown = page;
  shown.update?.(state, true);
  window.scrollTo(0, 0);
}

function take(name, tick) {
  if (!tick.status) return;
  if (name === "state") {
    state.upstreams.clear();
    state.ended = [];
    state.missed = 0;
  }
  state.status = tick.status;
  for (const id of tick.gone) state.upstreams.delete(id);
  for (const one of tick.upstreams) {
    const samples = one.samples ?? state.upstreams.get(one.id)?.samples ?? { everySeconds: 2, calls: [], failed: [], p50Us: [], p99Us: [] };
    state.upstreams.set(one.id, { ...one, samples });
  }
  ticks += 1;
  if (name === "tick" && ticks % 2 === 0) sample();
  state.open = tick.open;
  state.ended = tick.ended.concat(state.ended).slice(0, MOST_CALLS);
  state.missed += tick.missed ?? 0;
  if (tick.sessions) state.sessions = tick.sessions;
  document.getElementById("version").textContent = `version ${tick.status.version}`;
  shown?.update?.(state, false);
}

function sample() {
  for (const { samples, latest } of state.upstreams.values()) {
    if (!latest) continue;
    for (const key of ["calls", "failed", "p50Us", "p99Us"]) {
      samples[key].push(latest[key]);
      if (samples[key].length > MOST_SAMPLES) samples[key].shift();
    }
  }
}

function connection(name) {
  if (state.connection === name) return;
  state.connection = name;
  const text = { live: "live", paused: "paused", offline: "gateway not reachable", connecting: "connecting" }[name];
  const box = document.getElementById("connection");
  box.dataset.state = name;
  box.textContent = text;
}

/** Shows in the navigation how many approvals wait. */
export function showApprovals(count) {
  state.approvals = count;
  const link = document.querySelector('#nav a[data-page="approvals"]');
  link.querySelector(".count")?.remove();
  if (count) link.append(h("span.count", { "aria-label": `${count} waiting` }, String(count)));
}

async function countApprovals() {
  try {
    if (!isSignedIn() || !(await offers("/approvals"))) return;
    const held = waiting(await get("/approvals"));
    showApprovals(held.length);
  } catch { /* this gateway has no approvals */ }
}

/** A gateway that is a node of a cluster has one more page. */
async function showCluster() {
  try {
    if (!isSignedIn() || document.querySelector('#nav a[data-page="cluster"]')) return;
    const { isMember } = await get("/cluster/membership");
    if (isMember) document.getElementById("nav").append(h("a", { href: "#/cluster", "data-page": "cluster" }, "Cluster"));
  } catch { /* only operators see the cluster */ }
}

/** Keys: "/" to filter, "g" and a letter to go to a page, "j" and "k" in lists. */
function keys(event) {
  const typing = /^(INPUT|TEXTAREA|SELECT)$/.test(event.target.tagName);
  if (event.key === "Escape" && typing) { event.target.blur(); return; }
  if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "/") {
    const box = document.querySelector("main input[type=search]");
    if (box) { event.preventDefault(); box.focus(); }
  } else if (event.key === "j" || event.key === "k") {
    const rows = [...document.querySelectorAll("main [data-row]")];
    const at = rows.indexOf(document.activeElement);
    const next = rows[Math.max(0, Math.min(rows.length - 1, at + (event.key === "j" ? 1 : -1)))];
    if (next) { event.preventDefault(); next.focus(); }
  } else if (waitsForPage) {
    const found = NAV.find(([name]) => name[0] === event.key);
    if (found) location.hash = `#/${found[0]}`;
    waitsForPage = false;
  } else if (event.key === "g") {
    waitsForPage = true;
    setTimeout(() => { waitsForPage = false; }, 1000);
  }
}
let waitsForPage = false;

async function start() {
  replace(document.getElementById("nav"), NAV.map(([name, text]) => h("a", { href: `#/${name}`, "data-page": name }, text)));
  const refused = await signIn().catch(() => "the gateway did not answer");
  if (refused) toast(`Not signed in: ${refused}`);
  addEventListener("hashchange", async () => {
    if (location.hash.includes("code=")) {
      const problem = await signIn();
      if (problem) toast(`Not signed in: ${problem}`);
      else location.reload();
    }
    show();
    document.getElementById("main").focus();
  });
  addEventListener("keydown", keys);
  show();
  follow(take, connection, () => ({ status: state.status, upstreams: [...state.upstreams.values()], gone: [], open: state.open, ended: state.ended.slice(0, 256), missed: state.missed, sessions: state.sessions }));
  countApprovals();
  showCluster();
  setInterval(() => { if (!document.hidden && state.connection === "live") countApprovals(); }, 3000);
}

start();
