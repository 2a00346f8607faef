// The dashboard with ten thousand tools and a hundred thousand records in Chromium, and what watching costs a call:
// the echo of a gateway with audit, metrics by tool and three open dashboards, against one with none of them.
//
// node large.mjs PROGRAM CHROMIUM NODE_MODULES

import { execFileSync, spawn } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { connect } from "node:net";
import { availableParallelism, loadavg, tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const [program, chromium, modules] = process.argv.slice(2);
const { chromium: browsers } = createRequire(join(modules, "x.js"))("playwright-core");
const folder = mkdtempSync(join(tmpdir(), "toolyard-large-"));
const node = JSON.stringify(process.execPath), server = JSON.stringify(join(dirname(fileURLToPath(import.meta.url)), "server.mjs"));
const RECORDS = Number(process.env.RECORDS ?? 100_000), ROUNDS = 30, CALLS = 300;
/** Below this load the machine is quiet. */
const QUIET = Math.max(1, availableParallelism() / 2);
const wait = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const median = (numbers) => [...numbers].sort((a, b) => a - b)[Math.floor(numbers.length / 2)];
const failures = [];
function check(is, what) { console.log(`${is ? "ok    " : "FAILED"} ${what}`); if (!is) failures.push(what); }
/** Every figure with its bound, for the table at the end. */
const figures = [];
function bounded(what, figure, bound, unit) {
  const is = figure <= bound;
  figures.push([what, `${figure}${unit}`, `${bound}${unit}`, is ? "yes" : "NO"]);
  check(is, `${what}: ${figure}${unit}, at most ${bound}${unit}`);
}
function table() {
  const rows = [["figure", "measured", "at most", "kept"], ...figures];
  const widths = rows[0].map((_, at) => Math.max(...rows.map((row) => row[at].length)));
  const line = (row) => `| ${row.map((cell, at) => cell.padEnd(widths[at])).join(" | ")} |`;
  console.log([line(rows[0]), line(widths.map((width) => "-".repeat(width))), ...rows.slice(1).map(line)].join("\n"));
}

async function start(name, sections) {
  const home = join(folder, name);
  mkdirSync(home);
  writeFileSync(join(home, "config.toml"), `[listen]\nhttp = "127.0.0.1:0"\n\n${sections}\n[upstreams.notes]\ncommand = ${node}\nargs = [${server}]\n`);
  const env = { ...process.env, HOME: home, XDG_RUNTIME_DIR: home, XDG_CONFIG_HOME: home, XDG_STATE_HOME: home };
  const common = ["--config", join(home, "config.toml"), "--state-dir", join(home, "state")];
  const child = spawn(program, [...common, "serve", "--no-apps"], { env, stdio: "ignore" });
  children.push(child);
  const run = (...words) => execFileSync(program, [...common, ...words], { env, encoding: "utf8" });
  for (let at = 0; at < 600; at += 1, await wait(100)) {
    try {
      const origin = JSON.parse(readFileSync(join(home, "state/gateway.json"), "utf8")).http;
      const { upstreams } = await (await fetch(`${origin}/api/v1/upstreams`)).json();
      if (upstreams.filter((one) => ["notes", "many"].includes(one.id ?? one.name)).every((one) => one.state === "active")) return { child, run, origin };
    } catch { /* not there yet */ }
  }
  throw new Error(`the gateway ${name} did not become ready`);
}

/** One connection; each call waits for the answer of the one before. */
function client(origin) {
  const { hostname, port, host } = new URL(origin);
  const socket = connect(Number(port), hostname).setNoDelay();
  const body = JSON.stringify({ jsonrpc: "2.0", id: 1, method: "tools/call", params: { name: "notes__echo", arguments: { text: "hello" }, _meta: { "io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {} } } });
  const request = `POST /mcp HTTP/1.1\r\nhost: ${host}\r\ncontent-type: application/json\r\naccept: application/json, text/event-stream\r\nmcp-protocol-version: 2026-07-28\r\nmcp-method: tools/call\r\nmcp-name: notes__echo\r\ncontent-length: ${body.length}\r\n\r\n${body}`;
  let text = "", done = null;
  socket.on("data", (data) => {
    text += data;
    const head = text.indexOf("\r\n\r\n");
    const length = head < 0 ? null : /content-length: (\d+)/i.exec(text.slice(0, head));
    if (!length || text.length < head + 4 + Number(length[1])) return;
    const answer = text;
    text = "";
    done(answer);
  });
  return { call: () => new Promise((resolve) => { done = resolve; socket.write(request); }), end: () => socket.destroy() };
}

const children = [];
process.on("exit", () => children.forEach((child) => child.kill("SIGKILL")));
process.on("uncaughtException", (error) => { console.log(error); process.exit(1); });
const seen = await start("seen", `[audit]\n\n[metrics]\ntools = true\n\n[upstreams.many]\ncommand = ${node}\nargs = [${server}, "10000"]\n`);
const bare = await start("bare", "");
const began = Date.now();
let made = 0;
/** Under overload records are dropped and counted, so calls are made until there are enough. */
const records = async () => Number(/^toolyard_audit_records_total (\d+)/m.exec(await (await fetch(`${seen.origin}/metrics`)).text())[1]);
while ((await records()) < RECORDS) {
  const until = made + 10_000;
  await Promise.all(Array.from({ length: 8 }, async () => {
    const one = client(seen.origin);
    for (; made < until; made += 1) { const answer = await one.call(); if (!answer.includes("hello")) throw new Error(answer); }
    one.end();
  }));
  await wait(200);
}
console.log(`${made} calls in ${Date.now() - began} ms, ${await records()} records`);

const browser = await browsers.launch({ executablePath: chromium, args: ["--no-sandbox"] });
async function newContext() {
  const context = await browser.newContext({ viewport: { width: 1280, height: 860 } });
  await context.addInitScript(() => {
    window.longTasks = [];
    new PerformanceObserver((list) => window.longTasks.push(...list.getEntries().map((entry) => entry.duration))).observe({ type: "longtask", buffered: true });
  });
  return context;
}
const context = await newContext();
const url = () => JSON.parse(seen.run("ui", "--json")).url;
const live = (page) => page.waitForSelector("#connection[data-state=live]", { timeout: 30000 });
/** The bounds are those of a quiet machine, and the calls above were work, so the load falls first; as long as that takes,
 * at most ten minutes. */
async function quiet() {
  for (const until = Date.now() + 600_000; loadavg()[0] >= QUIET; await wait(2000)) {
    if (Date.now() > until) throw new Error(`the load stays at ${loadavg()[0].toFixed(1)}: the bounds are those of a quiet machine`);
  }
}
const pages = [
  ["upstream/many", () => /10,009 tools/.test(document.body.textContent)],
  ["playground", () => document.querySelectorAll("main [data-row]").length > 0],
  ["calls", () => document.querySelectorAll("section[aria-label=Calls] tbody tr").length > 100],
  ["audit", () => document.querySelectorAll("section[aria-label=Records] tbody tr").length > 10],
  ["audit?tool=notes%3Aecho&status=ok", () => document.querySelectorAll("section[aria-label=Records] tbody tr").length > 10],
  ["yard", () => document.querySelectorAll("section[aria-label=Upstreams] tbody tr").length >= 2],
];
for (const [path, isThere] of pages) {
  await quiet();
  const page = await context.newPage();
  await page.goto(url());
  await live(page);
  await page.goto("about:blank");
  await page.goto(`${seen.origin}/ui/#/${path}`);
  await page.waitForFunction(isThere, null, { timeout: 30000 }).catch(async (error) => { check(false, `${path} shows ${(await page.textContent("main")).slice(0, 300)}: ${error.message}`); });
  for (let at = 0; at < 10; at += 1) { await page.mouse.move(600, 500); await page.mouse.wheel(0, 2000); await wait(30); }
  const paint = await page.evaluate(() => performance.getEntriesByName("first-contentful-paint")[0]?.startTime ?? Infinity);
  const longest = await page.evaluate(() => Math.max(0, ...window.longTasks));
  bounded(`${path}: first paint`, Math.ceil(paint), 999, " ms");
  bounded(`${path}: longest task`, Math.ceil(longest), 100, " ms");
  await page.close();
}

const watching = [];
for (const path of ["yard", "calls", "audit"]) {
  // The tabs of one context share one stream, so each dashboard has a context of its own.
  const page = await (await newContext()).newPage();
  await page.goto(url());
  await live(page);
  await page.goto(`${seen.origin}/ui/#/${path}`);
  await live(page);
  watching.push(page);
}
const ends = { seen: client(seen.origin), bare: client(bare.origin) };
const times = { seen: [], bare: [] };
await quiet();
for (let round = 0; round < ROUNDS; round += 1) {
  for (const name of round % 2 ? ["seen", "bare"] : ["bare", "seen"]) {
    for (let at = 0; at < CALLS; at += 1) {
      const from = process.hrtime.bigint();
      const answer = await ends[name].call();
      times[name].push(Number(process.hrtime.bigint() - from) / 1000);
      if (!answer.includes("hello")) throw new Error(answer);
    }
  }
}
const [with_, without] = [median(times.seen), median(times.bare)];
console.log(`echo p50 ${with_.toFixed(0)} µs watched, ${without.toFixed(0)} µs not`);
bounded("echo p50, watched / not watched", Math.ceil((with_ / without) * 1000) / 1000, 1.1, " x");

const version = browser.version();
await browser.close();
for (const one of [seen, bare]) one.child.kill("SIGTERM");
await wait(500);
if (failures.length === 0) rmSync(folder, { recursive: true, force: true });
table();
console.log(`Chromium ${version}, ${RECORDS} records, ${ROUNDS} rounds of ${CALLS} calls, load ${loadavg()[0].toFixed(1)}`);
console.log(failures.length ? `${failures.length} failed; see ${folder}` : "all passed");
process.exit(failures.length ? 1 : 0);
