// Drives the dashboard in Chromium against the real gateway with real servers: a flow and a picture for each page,
// accessibility, keys, hostile names, large answers, many tabs, and a gateway that is killed.
//
// node run.mjs PROGRAM CHROMIUM NODE_MODULES PICTURES [--update]

import { execFileSync, spawn } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { loadavg, tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

import { startProtected } from "./protected.mjs";
import { startStreaming } from "./streaming.mjs";
import { checkTabs } from "./tabs.mjs";

const [program, chromium, modules, pictures, ...flags] = process.argv.slice(2);
const require = createRequire(join(modules, "x.js"));
const { chromium: browsers } = require("playwright-core");
const axe = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");
const here = dirname(fileURLToPath(import.meta.url));
const update = flags.includes("--update");
const folder = mkdtempSync(join(tmpdir(), "toolyard-ui-"));
const env = { ...process.env, HOME: folder, XDG_RUNTIME_DIR: folder, XDG_CONFIG_HOME: folder, XDG_STATE_HOME: folder };
const node = JSON.stringify(process.execPath), server = JSON.stringify(join(here, "server.mjs"));
const port = 20000 + (process.pid % 20000);
writeFileSync(join(folder, "config.toml"), `[listen]\nhttp = "127.0.0.1:${port}"\n\n[audit]\nsync = "full"\npayloads = "redacted"\n\n[upstreams.notes]\ncommand = ${node}\nargs = [${server}]\n\n[upstreams.many]\ncommand = ${node}\nargs = [${server}, "10000"]\n\n[upstreams.broken]\ncommand = "sh"\nargs = ["-c", "echo cannot open the database >&2; exit 3"]\n\n[[rules]]\ntools = "many:echo"\ndo = "approve"\nby = "operator"\nwait = "2m"\n`);
const common = ["--config", join(folder, "config.toml"), "--state-dir", join(folder, "state")];
const toolyard = (...words) => execFileSync(program, [...common, ...words], { env, encoding: "utf8" });

let gateway;
async function start() {
  gateway = spawn(program, [...common, "serve", "--no-apps"], { env, stdio: ["ignore", "ignore", "pipe"] });
  let words = "";
  await new Promise((resolve, reject) => {
    gateway.stderr.on("data", (data) => { words += data; if (words.includes("listening on")) resolve(); });
    gateway.on("exit", () => reject(new Error(`the gateway ended: ${words}`)));
  });
}
const origin = `http://127.0.0.1:${port}`;
/** Waits until ten thousand tools have been read for the first time, which takes long on a busy machine. */
async function settled() {
  for (const until = Date.now() + 300000; Date.now() < until; await new Promise((resolve) => setTimeout(resolve, 500))) {
    const many = await fetch(`${origin}/api/v1/upstreams/many`, { signal: AbortSignal.timeout(60000) }).then((answer) => answer.json()).catch(() => ({}));
    if (many.state === "active") return;
  }
  throw new Error("the server with ten thousand tools did not become active");
}
const failures = [];
let checks = 0;
function check(is, what) {
  checks += 1;
  if (!is) { failures.push(what); console.log(`  FAILED: ${what}`); }
}
async function step(name, run) {
  const began = Date.now();
  try { await run(); } catch (error) { check(false, `${name}: ${error.message}`); }
  console.log(`${name} (${Date.now() - began} ms)`);
}

await start();
await settled();
const browser = await browsers.launch({ executablePath: chromium, args: ["--no-sandbox", "--font-render-hinting=none", "--disable-lcd-text"] });
const settings = { viewport: { width: 1280, height: 860 }, deviceScaleFactor: 1, reducedMotion: "reduce", colorScheme: "light", locale: "en-GB", timezoneId: "UTC" };
const context = await browser.newContext(settings);
await context.grantPermissions(["clipboard-read", "clipboard-write"], { origin });
const problems = [];
await context.addInitScript(() => {
  document.addEventListener("securitypolicyviolation", (event) => console.error(`policy violation: ${event.violatedDirective}`));
  window.longTasks = [];
  new PerformanceObserver((list) => window.longTasks.push(...list.getEntries().map((entry) => entry.duration))).observe({ type: "longtask", buffered: true });
});
function watch(page) {
  page.on("dialog", (dialog) => { problems.push(`a dialog: ${dialog.message()}`); dialog.dismiss(); });
  page.on("pageerror", (error) => problems.push(`an error: ${error.message}`));
  page.on("console", (message) => { if (message.type() === "error" && !/ERR_CONNECTION|ERR_INCOMPLETE|ERR_EMPTY/.test(message.text())) problems.push(message.text()); });
}
const page = await context.newPage();
watch(page);
const live = (one) => one.waitForSelector("#connection[data-state=live]", { timeout: 20000 });
/** As a page of its own: a change of the fragment alone is shown a moment after it is made. */
const open = async (path) => { await page.goto("about:blank"); await page.goto(`${origin}/ui/#/${path}`); await live(page); };
const url = () => JSON.parse(toolyard("ui", "--json")).url;
async function isAccessible(name) {
  await page.evaluate(axe);
  const { violations } = await page.evaluate(() => window.axe.run(document, { resultTypes: ["violations"] }));
  check(violations.length === 0, `${name} has no axe violations: ${violations.map((one) => `${one.id} (${one.nodes.map((node) => node.target).slice(0, 3).join(", ")})`).join("; ")}`);
}
/** Everything that depends on the moment is replaced, so that two pictures are equal. */
async function picture(name, one = page) {
  if (flags.includes("--no-pictures")) return;
  await one.evaluate(() => {
    const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (texts.nextNode()) {
      const text = texts.currentNode;
      text.data = text.data.replace(/\b\d\d:\d\d:\d\d\b/g, "12:00:00").replace(/\b\d+(\.\d+)? (µs|ms|s|min|h)\b/g, "1 ms").replace(/"[0-9a-f]{8}-[0-9a-f-]{27}"/g, '"…"').replace(/\/tmp\/toolyard-ui-\w+/g, "~").replace(/127\.0\.0\.1:\d+/g, "127.0.0.1:7777").replace(/\b(Call|call) \d+\b/g, "$1 1");
    }
    for (const value of document.querySelectorAll("dl.facts dd")) for (const text of value.childNodes) if (text.nodeType === 3 && /^\d+(, \d+ failed)?$/.test(text.data)) text.data = "0";
    // How many spans there are depends on which of them took a measurable time, so the whole section goes.
    for (const spans of document.querySelectorAll(".spans")) spans.closest("section").style.display = "none";
    // As a sheet, so that it also holds for what the page draws again before the picture is taken.
    const sheet = new CSSStyleSheet();
    // So do counts, which depend on the calls before, and the text of files, which has paths of this machine.
    sheet.replaceSync(".bar i, .spark, .chart, .tile b, section[aria-label=Upstreams] td.num, main pre { visibility: hidden } #toast { display: none }");
    // How far a server is that always fails depends on the moment.
    for (const row of document.querySelectorAll("section[aria-label=Upstreams] tbody tr")) if (/^broken/.test(row.textContent)) row.remove();
    document.adoptedStyleSheets.push(sheet);
  });
  const shot = await one.screenshot({ caret: "hide", animations: "disabled" });
  const path = join(pictures, `${name}.png`);
  if (update || !existsSync(path)) { mkdirSync(pictures, { recursive: true }); writeFileSync(path, shot); return; }
  const off = await compare(readFileSync(path), shot);
  if (off > 0.001) writeFileSync(join(folder, `${name}.png`), shot);
  check(off <= 0.001, `${name} looks as before (${(off * 100).toFixed(2)} % of pixels differ${otherBrowser()})`);
}
/** Debian has one version of the browser at a time, so it cannot be pinned: the pictures' own version is noted beside them. */
const versionFile = join(pictures, "browser.txt");
function otherBrowser() {
  const recorded = existsSync(versionFile) ? readFileSync(versionFile, "utf8").trim() : "unknown";
  return recorded === browser.version() ? "" : `; recorded with Chromium ${recorded}, this is ${browser.version()}: look at the differences, then use --update`;
}
async function compare(before, now) {
  const other = await browser.newPage();
  const share = await other.evaluate(async ([a, b]) => {
    const pixels = async (text) => {
      const image = await createImageBitmap(await (await fetch(`data:image/png;base64,${text}`)).blob());
      const canvas = new OffscreenCanvas(image.width, image.height), draw = canvas.getContext("2d");
      draw.drawImage(image, 0, 0);
      return draw.getImageData(0, 0, image.width, image.height);
    };
    const [one, two] = [await pixels(a), await pixels(b)];
    if (one.width !== two.width || one.height !== two.height) return 1;
    let off = 0;
    for (let at = 0; at < one.data.length; at += 4) if (Math.abs(one.data[at] - two.data[at]) + Math.abs(one.data[at + 1] - two.data[at + 1]) + Math.abs(one.data[at + 2] - two.data[at + 2]) > 24) off += 1;
    return off / (one.data.length / 4);
  }, [before.toString("base64"), now.toString("base64")]);
  await other.close();
  return share;
}
async function callTool(tool, args) {
  await open(`playground?tool=${encodeURIComponent(tool)}&args=${encodeURIComponent(JSON.stringify(args))}`);
  await page.getByRole("button", { name: "Call", exact: true }).click();
}
/** A machine that does other work as well takes longer over everything. */
async function hasNoLongTask(what) {
  const longest = await page.evaluate(() => Math.max(0, ...window.longTasks));
  check(longest <= (loadavg()[0] < 1.5 ? 100 : 300), `${what}: no task takes long (${Math.round(longest)} ms)`);
}
/** Calls a tool as a client beside the dashboard; the text of the answer. */
function callBeside(name, args, more = {}) {
  const meta = { ...more, "io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {} };
  const headers = { "content-type": "application/json", accept: "application/json, text/event-stream", "mcp-protocol-version": "2026-07-28", "mcp-method": "tools/call", "mcp-name": name };
  const body = JSON.stringify({ jsonrpc: "2.0", id: 1, method: "tools/call", params: { name, arguments: args, _meta: meta } });
  return fetch(`${origin}/mcp`, { method: "POST", headers, body }).then((answer) => answer.text()).catch((error) => error.message);
}
/** Opens a session of 2025-11-25 as a client beside the dashboard. */
async function openSession(title) {
  let id = 0;
  const headers = { "content-type": "application/json", accept: "application/json, text/event-stream" };
  const send = async (method, params, more = { id: (id += 1) }) => {
    const answer = await fetch(`${origin}/mcp`, { method: "POST", headers, body: JSON.stringify({ jsonrpc: "2.0", method, params, ...more }) });
    headers["mcp-session-id"] ??= answer.headers.get("mcp-session-id");
    return answer.text();
  };
  await send("initialize", { protocolVersion: "2025-11-25", capabilities: {}, clientInfo: { name: "old-agent", title, version: "2.1" } });
  headers["mcp-protocol-version"] = "2025-11-25";
  await send("notifications/initialized", {}, {});
  return { call: (name, args) => send("tools/call", { name, arguments: args }), end: () => fetch(`${origin}/mcp`, { method: "DELETE", headers }) };
}
/** Opens the page of the last call that the filter finds. */
async function openCall(filter) {
  await open(`calls?q=${encodeURIComponent(filter)}`);
  await page.locator("section[aria-label=Calls] tbody tr a[data-row]").first().click();
  await page.waitForSelector("section[aria-label=Answer]");
}
const upstreamRow = (name) => page.locator("section[aria-label=Upstreams] tbody tr", { has: page.locator(`a[href="#/upstream/${name}"]`) });
const result = () => page.waitForSelector("section[aria-label=Result] .badge", { timeout: 20000 });

await step("only a fresh code signs in, and it leaves the address", async () => {
  const first = url();
  const code = first.split("code=")[1];
  await page.goto(first);
  await live(page);
  check(!page.url().includes("code"), "the code is removed from the address");
  check((await context.cookies()).length === 0, "there are no cookies");
  const exchange = (headers, body) => fetch(`${origin}/api/v1/ui/sessions`, { method: "POST", headers: { "content-type": "application/json", ...headers }, body: JSON.stringify(body) });
  check((await exchange({}, { code })).status === 403, "a used code is refused");
  check((await exchange({}, {})).status === 403, "a missing code is refused");
  check((await exchange({ origin: "http://127.0.0.1:1" }, { code: url().split("code=")[1] })).status === 403, "a page of another port is refused");
  check((await fetch(`${origin}/api/v1/status`, { headers: { "sec-fetch-site": "cross-site" } })).status === 403, "a request across sites is refused");
  check((await fetch(`${origin}/api/v1/upstreams/notes/restart`, { method: "POST" })).status === 403, "changes need a token");
  check((await fetch(`${origin}/api/v1/audit`)).status === 403, "the audit needs a token");
});
await step("the yard shows upstreams live, and a server is restarted by keys alone", async () => {
  await open("yard");
  await page.waitForFunction(() => document.querySelectorAll("section[aria-label=Upstreams] tbody tr").length >= 4 && /dead|retrying/.test(document.body.textContent));
  await isAccessible("yard");
  const button = page.getByRole("button", { name: "Restart notes" });
  for (let at = 0; at < 60 && !(await button.evaluate((one) => one === document.activeElement)); at += 1) await page.keyboard.press("Tab");
  await page.keyboard.press("Enter");
  await page.waitForFunction(() => /notes: restarting/.test(document.getElementById("toast").textContent));
});
await step("a tool is called by keys alone, from the list to the result", async () => {
  await open("playground");
  await page.keyboard.press("/");
  await page.keyboard.type("notes:echo");
  await page.waitForFunction(() => document.querySelectorAll("main [data-row]").length === 1);
  await page.keyboard.press("Escape");
  await page.keyboard.press("j");
  await page.keyboard.press("Enter");
  const text = await page.waitForSelector("main input[id^=field-], main textarea[id^=field-]");
  await text.focus();
  await page.keyboard.type("hello from the keyboard");
  const button = page.getByRole("button", { name: "Call", exact: true });
  for (let at = 0; at < 20 && !(await button.evaluate((one) => one === document.activeElement)); at += 1) await page.keyboard.press("Tab");
  await page.keyboard.press("Enter");
  await result();
  check((await page.textContent("section[aria-label=Result]")).includes("hello from the keyboard"), "the result is shown");
  await isAccessible("playground");
  await picture("playground");
});
await step("buttons without a use are not shown", async () => {
  await open(`playground?tool=${encodeURIComponent("notes:search")}`);
  await page.getByRole("button", { name: "Call", exact: true }).waitFor();
  check(!(await page.getByRole("button", { name: "Cancel", exact: true }).isVisible()), "there is nothing to cancel");
  await open("calls");
  check(!(await page.getByRole("button", { name: "Show more" }).isVisible()), "there are no more calls");
});
await step("form and raw JSON never rewrite each other", async () => {
  await open(`playground?tool=${encodeURIComponent("notes:search")}`);
  await page.fill("#main textarea[id^=field-]", "from the form");
  await page.getByRole("tab", { name: "Raw JSON" }).click();
  await page.fill("textarea[aria-label='Arguments as JSON']", '{"query": "from raw", "unknown": 1}');
  await page.getByRole("tab", { name: "Form" }).click();
  check((await page.inputValue("#main textarea[id^=field-]")) === "from the form", "the form keeps its text");
  await page.getByRole("tab", { name: "Raw JSON" }).click();
  check((await page.inputValue("textarea[aria-label='Arguments as JSON']")).includes("unknown"), "raw JSON keeps its text");
});
await step("questions are asked, and answered", async () => {
  await callTool("notes:ask", {});
  const field = await page.waitForSelector("section[aria-label=Result] input");
  await field.fill("Ada");
  await isAccessible("question");
  await page.getByRole("button", { name: "Answer", exact: true }).click();
  await result();
  check((await page.textContent("section[aria-label=Result]")).includes("Hello Ada"), "the answer reaches the tool");
});
await step("a call under way shows its progress and is cancelled by its button", async () => {
  await callTool("notes:slow", { seconds: 30 });
  await page.waitForFunction(() => /step \d+ of 300/.test(document.body.textContent));
  const { calls } = await page.evaluate(async () => (await fetch("/api/v1/calls", { headers: { authorization: `Bearer ${sessionStorage.getItem("toolyard-token")}` } })).json());
  check(calls[0].state === "open" && calls[0].tool === "notes:slow", "the call is listed as under way");
  await page.getByRole("button", { name: "Cancel", exact: true }).click();
  await page.waitForFunction(() => /Cancelled\./.test(document.querySelector("section[aria-label=Result]").textContent));
  await page.waitForFunction(async (id) => (await (await fetch("/api/v1/calls", { headers: { authorization: `Bearer ${sessionStorage.getItem("toolyard-token")}` } })).json()).calls.some((call) => call.call === id && call.status === "cancelled"), calls[0].call);
});
await step("an operator cancels the call of a client by a button that keeps the focus", async () => {
  await open("calls");
  const answer = callBeside("notes__slow", { seconds: 60 });
  const button = page.getByRole("button", { name: /^Cancel call \d+$/ });
  await button.focus();
  const took = () => page.locator("section[aria-label=Calls] tbody tr").first().locator("td.num").last().textContent();
  const before = await took();
  await page.waitForFunction((text) => document.querySelector("section[aria-label=Calls] tbody tr td:nth-child(4)").textContent !== text, before);
  check(await button.evaluate((one) => one === document.activeElement), "the button keeps the focus while the call goes on");
  await page.keyboard.press("Enter");
  const text = await answer;
  check(text.includes("operator has cancelled the call"), `the client learns who cancelled: ${text.slice(0, 300)}`);
});
await step("failures and hostile names are inert", async () => {
  await callTool("notes:fail", {});
  await result();
  await callTool("notes:<img src=x onerror=alert(1)>", {});
  await result();
  await open("upstream/notes");
  await page.getByRole("button", { name: /onerror/ }).first().click();
  check((await page.locator("img[src=x]").count()) === 0, "no element is made from a name");
});
await step("an answer of five megabytes is shown without a pause", async () => {
  // Each page that is loaded counts its own long tasks.
  await callTool("notes:big", {});
  await result();
  await hasNoLongTask("five megabytes");
  check((await page.textContent("section[aria-label=Result]")).length < 1e6, "only a part is in the page");
});
await step("calls are filtered, and the address has the filter", async () => {
  await open("calls");
  await page.fill("input[type=search]", "status:error");
  await page.waitForFunction(() => location.hash.includes("status%3Aerror"));
  await page.waitForFunction(() => [...document.querySelectorAll("section[aria-label=Calls] tbody tr")].every((row) => /error|cancelled/.test(row.textContent)));
  await isAccessible("calls");
  await page.fill("input[type=search]", "notes:echo");
  await page.waitForFunction(() => { const rows = document.querySelectorAll("section[aria-label=Calls] tbody tr"); return rows.length === 1 && /notes:echo/.test(rows[0].textContent); });
  await picture("calls");
  await page.keyboard.press("Escape");
  await page.keyboard.press("j");
  await page.keyboard.press("Enter");
  await page.waitForSelector("section[aria-label=Answer]");
  await isAccessible("call");
  await picture("call");
});
await step("an upstream shows its tools, stderr and changed definitions", async () => {
  await callTool("many:change", {});
  await result();
  // The gateway reads ten thousand definitions again, and the page shows those changes that there are when it is opened.
  await page.waitForFunction(async () => JSON.stringify(await (await fetch("/api/v1/upstreams/many/changes", { headers: { authorization: `Bearer ${sessionStorage.getItem("toolyard-token")}` } })).json()).includes("remove"), null, { timeout: 60000, polling: 500 });
  await open("upstream/notes");
  await page.waitForFunction(() => /9 tools/.test(document.body.textContent));
  await isAccessible("upstream");
  await picture("upstream");
  await page.getByRole("tab", { name: "Stderr" }).click();
  await page.waitForFunction(() => /notes server ready/.test(document.querySelector(".log")?.textContent));
  await open("upstream/many");
  await page.getByRole("tab", { name: "Changes" }).click();
  await page.waitForFunction(() => /changed · remove/.test(document.body.textContent));
  await page.locator("details", { hasText: "remove" }).locator("summary").click();
  check((await page.locator(".diff .add").count()) > 0, "the difference is shown");
});
await step("ten thousand tools are listed at once", async () => {
  await page.goto("about:blank");
  const began = Date.now();
  await open("upstream/many");
  await page.waitForFunction(() => /10,009 tools/.test(document.body.textContent));
  check(Date.now() - began < 3000, `the list is there within three seconds, also on a busy machine (${Date.now() - began} ms)`);
  await hasNoLongTask("ten thousand tools");
});
await step("a slow answer does not replace a part that was chosen later", async () => {
  let release;
  const held = new Promise((resolve) => { release = resolve; });
  await page.route("**/definitions?*", async (route) => { await held; await route.continue(); });
  await open("upstream/many");
  await page.getByRole("tab", { name: "Stderr" }).click();
  await page.waitForFunction(() => /notes server ready/.test(document.querySelector(".log")?.textContent));
  const late = page.waitForResponse((response) => response.url().includes("/definitions?"));
  release();
  await (await late).finished();
  await page.evaluate(() => new Promise((resolve) => { setTimeout(resolve, 0); }));
  check((await page.locator(".log").count()) === 1, "stderr is still shown");
  await page.unroute("**/definitions?*");
});
await step("the audit has every call and finds one", async () => {
  await open("audit?tool=notes%3Aecho");
  await page.waitForFunction(() => document.querySelectorAll("section[aria-label=Records] tbody tr").length === 1);
  await picture("audit");
  await page.locator("section[aria-label=Records] tbody tr button").click();
  await page.waitForFunction(() => /hello from the keyboard/.test(document.body.textContent));
  await isAccessible("audit");
  await page.getByRole("button", { name: "Verify" }).click();
  await page.waitForFunction(() => /as they were written/.test(document.getElementById("toast").textContent));
  check(/records are as they were written/.test(toolyard("audit", "--verify")), "the command verifies it, too");
});
await step("the config shows its files, and a server is added after its difference", async () => {
  await open("config");
  await page.waitForFunction(() => /The config is valid/.test(document.body.textContent));
  await isAccessible("config");
  await picture("config");
  await page.fill("#add-name", "second");
  await page.fill("#add-target", `node ${join(here, "server.mjs")}`);
  await page.getByRole("button", { name: "Show the change" }).click();
  await page.waitForSelector(".diff .add");
  check(!readFileSync(join(folder, "config.toml"), "utf8").includes("second"), "nothing is written before it is confirmed");
  await page.getByRole("button", { name: /Add to/ }).click();
  await page.waitForFunction(() => /second was added/.test(document.getElementById("toast").textContent));
  check(readFileSync(join(folder, "config.toml"), "utf8").includes("[upstreams.second]"), "the file has the server");
  await open("yard");
  await page.waitForFunction(() => [...document.querySelectorAll("tbody tr")].some((row) => /second/.test(row.textContent) && /active/.test(row.textContent)), null, { timeout: 20000 });
});
await step("a held call is approved by keys alone, and goes on", async () => {
  for (const [name, expected] of [["Allow once", "held until approved"], ["Deny", "was denied by an operator"]]) {
    const answer = callBeside("many__echo", { text: "held until approved" });
    await page.goto("about:blank");
    await open("approvals");
    await page.waitForFunction(() => /many:echo/.test(document.querySelector("main").textContent), null, { timeout: 20000 });
    await isAccessible("approvals with a held call");
    const button = page.getByRole("button", { name: new RegExp(`^${name}`) }).first();
    for (let at = 0; at < 60 && !(await button.evaluate((one) => one === document.activeElement)); at += 1) await page.keyboard.press("Tab");
    await page.keyboard.press("Enter");
    const text = await answer;
    check(text.includes(expected), `${name} by keys decides about the call: ${text.slice(0, 300)}`);
  }
});
await step("the page of a call shows what its steps decided, and the revisions of both sides", async () => {
  await openCall("tool:many:echo status:ok");
  const steps = await page.textContent("[aria-label='Decisions of steps']");
  check(/approve/.test(steps) && /rules|approval/.test(steps), `the rule and the approval are steps: ${steps}`);
  const summary = await page.textContent("section[aria-label=Summary]");
  check(summary.includes("client 2026-07-28, upstream 2025-06-18"), `both revisions are named: ${summary}`);
  for (const [part, words] of [["Request", "2026-07-28"], ["Answer", "2025-06-18"]]) check((await page.textContent(`section[aria-label=${part}]`)).includes(words), `${part} names its revision`);
  for (const form of ["Tree", "Formatted", "Bytes"]) {
    await page.locator("section[aria-label=Answer]").getByRole("tab", { name: form }).click();
    const text = await page.textContent("section[aria-label=Answer] .payload");
    check(form === "Tree" ? text.includes('"content"') : text.includes("held until approved"), `the answer is shown as ${form}: ${text.slice(0, 200)}`);
  }
  await isAccessible("call with steps");
});
await step("a call is copied as a command, made again and compared", async () => {
  await openCall("tool:notes:echo");
  await page.getByRole("button", { name: "Copy as command" }).click();
  await page.waitForFunction(() => /Copied/.test(document.getElementById("toast").textContent));
  const command = await page.evaluate(() => navigator.clipboard.readText());
  check(/^toolyard tools call notes:echo --args '\{.*hello from the keyboard.*\}'$/.test(command), `the command is whole: ${command}`);
  const words = [program, ...common].map((word) => `'${word}'`).join(" ");
  const printed = execFileSync("sh", ["-c", command.replace(/^toolyard/, words)], { env, encoding: "utf8" });
  check(printed.includes("hello from the keyboard"), `the command does the same: ${printed}`);
  await page.getByRole("link", { name: "Call again" }).click();
  const raw = page.locator("textarea[aria-label='Arguments as JSON']");
  await raw.fill((await raw.inputValue()).replace("keyboard", "playground"));
  await page.getByRole("button", { name: "Call", exact: true }).click();
  await result();
  check((await page.textContent("section[aria-label=Result]")).includes("hello from the playground"), "the call is made again");
  await openCall("tool:notes:echo");
  const choice = page.locator("select[aria-label='Compare with']");
  const last = await choice.locator("option").last().getAttribute("value");
  await choice.selectOption(last);
  await page.waitForSelector(".diff .add");
  const [added, removed] = [(await page.locator(".diff .add").allTextContents()).join(" "), (await page.locator(".diff .del").allTextContents()).join(" ")];
  check(added.includes("from the playground") && removed.includes("from the keyboard"), `the difference is shown: ${added} / ${removed}`);
  await isAccessible("compared calls");
});
/** The program has no cluster; `cargo xtask cluster` checks what the API of one answers. */
async function mockCluster(one) {
  const nodes = [{ node: "east", address: "10.0.0.1:7777", self: true, alive: true, owns: 1, version: "0.1.0", sameConfig: true }, { node: "west", address: "10.0.0.2:7777", self: false, alive: true, silentMs: 400, owns: 1, version: "0.1.0", sameConfig: false, link: { by: "direct", connectMs: 1.5 } }, { node: "<b>north</b>", self: false, alive: false, silentMs: 20000, owns: 0, version: "0.1.0", sameConfig: true, link: { by: "none", error: "connection refused" } }];
  const owners = [{ id: "notes", kind: "stdio", node: "east", alive: true, fence: 3 }, { id: "many", kind: "stdio", node: "<b>north</b>", alive: false, fence: 1 }];
  await one.route("**/api/v1/cluster", (route) => route.fulfill({ json: { node: "east", connected: true, leaseMsLeft: 9000, nodes, owners } }));
}
await step("the page of a cluster shows nodes and owners", async () => {
  await mockCluster(page);
  await open("cluster");
  await page.waitForFunction(() => document.querySelectorAll("section[aria-label=Nodes] tbody tr").length === 3);
  check((await page.textContent("main")).includes("fails: connection refused"), "a broken link is named");
  check((await page.locator("main b").count()) === 0, "no element is made from a name");
  await isAccessible("cluster");
  await picture("cluster");
  await page.unroute("**/api/v1/cluster");
});
await step("agents are shown with what they called", async () => {
  await open("agents");
  await page.waitForFunction(() => [...document.querySelectorAll("section[aria-label='Clients without a session'] tbody tr")].some((row) => /notes:/.test(row.textContent)));
});
for (const name of ["approvals", "agents", "yard"]) {
  await step(`${name}: accessible, and as before`, async () => { await open(name); await isAccessible(name); await picture(name); await page.goto("about:blank"); });
}
await step("the yard shows rate, latency and the last error", async () => {
  for (let at = 0; at < 3; at += 1) await callBeside("notes__search", { query: "yard" });
  await open("yard");
  await page.waitForFunction(() => {
    const cells = document.querySelector('section[aria-label=Upstreams] a[href="#/upstream/notes"]')?.closest("tr").children;
    return cells && Number(cells[4].textContent) >= 3 && /\d (µs|ms|s) \/ \d.* (µs|ms|s)$/.test(cells[6].textContent) && /^\d+ calls in the last minutes, median/.test(cells[5].firstChild.getAttribute("aria-label"));
  }, null, { timeout: 20000 });
  check((await upstreamRow("notes").locator("svg.spark path").last().getAttribute("d")).split("L").length > 1, "the sparkline has a line");
  const error = await upstreamRow("broken").locator(".cell-sub.bad").textContent();
  check(/cannot open the database|ended|exit/.test(error), `the last error is shown: ${error}`);
  await isAccessible("yard with rates");
});
await step("an upstream shows its restarts with their reasons", async () => {
  await open("upstream/broken");
  await page.getByRole("tab", { name: "History" }).click();
  const rows = page.locator("[aria-label=History] tbody tr");
  await rows.first().waitFor();
  check((await rows.count()) >= 3, "each attempt is a row");
  const text = await page.textContent("[aria-label=History]");
  check(/retrying/.test(text) && /cannot open the database|ended|exit/.test(text), `states have reasons: ${text.slice(0, 300)}`);
  await isAccessible("history of an upstream");
  await open("upstream/notes");
  await page.getByRole("tab", { name: "History" }).click();
  await rows.first().waitFor();
  check((await rows.filter({ hasText: "active" }).count()) >= 2, "the restart by keys is there");
});
/** Changes the config file for a while. */
async function withConfig(added, run) {
  const file = join(folder, "config.toml"), before = readFileSync(file, "utf8");
  writeFileSync(file, before + added);
  try { await run(); } finally { writeFileSync(file, before); }
}
await step("the config names what is wrong in its files", async () => {
  await withConfig("\n[upstreams.wrong]\ncommand = 7\n", async () => {
    await open("config");
    const problem = page.locator(".note.warn li").first();
    await problem.waitFor();
    const text = await problem.textContent();
    check(/config\.toml/.test(text) && /wrong|command/.test(text), `the problem names file and key: ${text}`);
    await isAccessible("config with a problem");
  });
  await open("config");
  await page.waitForFunction(() => /The config is valid/.test(document.body.textContent));
});
await step("the spans of a call are queue, hooks, upstream and relay", async () => {
  const added = '\n[limits.one]\nconcurrent = 1\n\n[hooks.ahead]\nuse = "git-noninteractive"\nmatches = ["notes:slow"]\nwith = { argument = "text" }\n\n[hooks.after]\nuse = "truncate"\nmatches = ["notes:slow"]\n\n[tools."notes:slow"]\nlimits = ["one"]\n';
  await withConfig(added, async () => {
    await open("config");
    await page.getByRole("button", { name: "Reload" }).click();
    // Of two calls at once, the second waits for the limit. The new config is in force a moment after it is read.
    let found;
    for (const until = Date.now() + 30000; !found && Date.now() < until;) {
      await Promise.all([1, 2].map(() => callBeside("notes__slow", { seconds: 0.3, text: "git log" })));
      const { calls } = await page.evaluate(async () => (await fetch("/api/v1/calls", { headers: { authorization: `Bearer ${sessionStorage.getItem("toolyard-token")}` } })).json());
      found = calls.find((call) => call.tool === "notes:slow" && call.marks?.queuedMs > 100 && call.marks.reviewedMs);
    }
    check(found, "a call waited for the limit and passed hooks");
    await open(`call/${found.call}`);
    await page.waitForSelector(".spans");
    const names = await page.locator(".spans > span:not(.num)").allTextContents();
    for (const name of ["queue of the limits", "hooks before the call", "upstream", "hooks after the call", "relay"]) check(names.includes(name), `there is a span "${name}": ${names.join(", ")}`);
    await isAccessible("call with spans");
    await open("calls?q=notes%3Aslow");
    await page.waitForFunction(() => [...document.querySelectorAll("section[aria-label=Calls] tbody td[title]")].some((cell) => /queue of the limits .*, .*hooks before the call .*upstream .*relay/.test(cell.title) && cell.querySelectorAll("i.queue, i.hooks, i.upstream, i.relay").length >= 5), null, { timeout: 20000 });
    await isAccessible("calls with spans");
  });
});
/** Reads a config file that was changed, on the page Config. */
async function reload() {
  await open("config");
  await page.getByRole("button", { name: "Reload" }).click();
}
await step("the yard lists clients with and without a session, and agents show background work", async () => {
  const project = join(folder, "project");
  mkdirSync(project);
  toolyard("trust", project);
  await withConfig(`\n[packs.scripts]\nroot = ${JSON.stringify(project)}\ncommands = { wait = ["sleep", "600"] }\n`, async () => {
    await reload();
    await callBeside("notes__search", { query: "yard" });
    const session = await openSession("Old agent");
    await session.call("notes__echo", { text: "from a session" });
    await open("yard");
    const clients = page.locator("section[aria-label=Clients] tbody tr");
    await clients.filter({ hasText: "Old agent" }).waitFor({ timeout: 20000 });
    const row = await clients.filter({ hasText: "Old agent" }).textContent();
    check(row.includes("/mcp") && row.includes("2025-11-25"), `the session has its view and revision: ${row}`);
    const other = await clients.filter({ hasText: "a client that gives no name" }).textContent();
    check(other.includes("no session") && /last call \d+ (s|min) ago/.test(other), `a client without a session is listed with its last call: ${other}`);
    const tile = Number(await page.locator(".tile", { hasText: "client" }).locator("b").textContent());
    check(tile === (await clients.count()) && tile >= 2, `the tile counts them: ${tile}`);
    const drawn = await page.locator("svg.picture").textContent();
    check(drawn.includes("Old agent") && !drawn.includes("no clients"), `the picture has them: ${drawn}`);
    await isAccessible("yard with a session");
    await callTool("scripts:run", { script: "wait" });
    await result();
    await open("agents");
    const sessions = page.locator("section[aria-label=Sessions] tbody tr", { hasText: "Old agent" });
    await sessions.waitFor({ timeout: 20000 });
    const cells = await sessions.locator("td").allTextContents();
    check(cells[2] === "/mcp" && cells[3] === "2025-11-25" && cells[4] === "1" && cells[5] === "0", `the session is counted: ${cells.join(" | ")}`);
    await page.locator("section[aria-label='Background work'] tbody tr", { hasText: /scripts.*sleep \(process \d+\)/ }).waitFor({ timeout: 20000 });
    await isAccessible("agents with a session and background work");
    await sessions.getByRole("link", { name: "1" }).click();
    await page.waitForFunction(() => { const rows = document.querySelectorAll("section[aria-label=Calls] tbody tr"); return rows.length === 1 && /notes:echo/.test(rows[0].textContent); });
    await session.end();
    await open("yard");
    await clients.first().waitFor();
    check((await clients.filter({ hasText: "Old agent" }).count()) === 0, "a session that has ended is not listed");
  });
  await reload();
});
await step("a server that needs a sign-in comes first, and its button opens the page by keys alone", async () => {
  const far = await startProtected();
  await withConfig(`\n[upstreams.protected]\nurl = ${JSON.stringify(far.url)}\n`, async () => {
    await reload();
    await open("yard");
    const row = upstreamRow("protected");
    await row.locator(".badge.warn", { hasText: "sign-in needed" }).waitFor({ timeout: 30000 });
    const names = await page.locator("section[aria-label=Upstreams] tbody a[data-row]").allTextContents();
    check(names.indexOf("protected") < names.indexOf("many"), `it comes before the healthy servers: ${names.join(", ")}`);
    check((await row.getByRole("button").allTextContents()).join() === "Sign in", "its one action is to sign in");
    await isAccessible("yard with a server that needs a sign-in");
    await row.getByRole("button").focus();
    const opening = context.waitForEvent("page");
    await page.keyboard.press("Enter");
    const opened = await opening;
    await opened.waitForFunction(() => /You are signed in/.test(document.body.textContent), null, { timeout: 20000 });
    check(await opened.evaluate(() => window.opener === null), "the page of the sign-in cannot reach the dashboard");
    await opened.close();
    await row.locator(".badge.good", { hasText: "active" }).waitFor({ timeout: 20000 });
    await asksWithPage(far);
  });
  far.stop();
  await reload();
  await open("yard");
  await upstreamRow("protected").waitFor({ state: "detached", timeout: 20000 });
});
/** A call to a server whose sign-in was revoked. */
async function asksWithPage(far) {
  far.revoke();
  const before = far.asked(), pages = context.pages().length;
  await callTool("protected:secret", {});
  const link = page.getByRole("link", { name: `Open the page at 127.0.0.1:${port}` });
  await link.waitFor({ timeout: 20000 });
  const shown = await page.locator("section[aria-label=Result] .note code").textContent();
  check(shown.startsWith(`${origin}/oauth/start/`), `the whole address is shown: ${shown}`);
  check((await link.getAttribute("href")) === shown && (await link.getAttribute("rel")).includes("noopener"), "the link leads there, without a way back");
  await isAccessible("playground with a page to open");
  check(far.asked() === before && context.pages().length === pages, "nothing is opened before a click");
  const opening = context.waitForEvent("page");
  await link.click();
  const opened = await opening;
  await opened.waitForFunction(() => /You are signed in/.test(document.body.textContent), null, { timeout: 20000 });
  await opened.close();
  await page.getByRole("button", { name: "Continue" }).click();
  await result();
  const text = await page.textContent("section[aria-label=Result]");
  check(text.includes("the secret is 42"), `the call goes on after the sign-in: ${text.slice(0, 300)}`);
}
await step("an answer that is an event stream has a tree, and a call keeps the revision of its upstream", async () => {
  const far = await startStreaming();
  await withConfig(`\n[upstreams.far]\nurl = ${JSON.stringify(far.url)}\n`, async () => {
    await reload();
    await open("yard");
    await upstreamRow("far").locator(".badge.good", { hasText: "active" }).waitFor({ timeout: 30000 });
    // The catalog shows the tools of a new server shortly after it is active.
    let received = "unknown tool";
    for (const end = Date.now() + 20000; received.includes("unknown tool") && Date.now() < end; await page.waitForTimeout(50)) {
      received = await callBeside("far__stream", {}, { progressToken: "p1" });
    }
    check(received.includes("event: message") && received.includes("half way") && received.includes("s3cret"), `the client gets the stream as it is: ${received.slice(0, 300)}`);
    await openCall("far:stream");
    const summary = () => page.textContent("section[aria-label=Summary]");
    check((await summary()).includes("upstream 2026-07-28"), `the upstream has its revision: ${await summary()}`);
    const answer = page.locator("section[aria-label=Answer]");
    check((await answer.getByRole("tab").allTextContents()).join() === "Tree,Formatted,Bytes", "the answer has a tree");
    check((await answer.locator(".tree > details > summary").textContent()) === "[ 2 ]", "the tree has the two messages");
    await answer.getByRole("tab", { name: "Formatted" }).click();
    const formatted = await answer.textContent();
    check(formatted.includes('"half way"') && formatted.includes('"token": "[redacted]"') && !formatted.includes("s3cret"), `messages are formatted, without secrets: ${formatted.slice(0, 500)}`);
    await isAccessible("call with an event stream");
    const shown = page.url();
    far.becomeOld();
    await page.evaluate(() => fetch("/api/v1/upstreams/far/restart", { method: "POST", headers: { authorization: `Bearer ${sessionStorage.getItem("toolyard-token")}` } }));
    await page.waitForFunction(async () => (await (await fetch("/api/v1/upstreams/far")).json()).revision === "2025-06-18", null, { timeout: 30000, polling: 500 });
    await open(new URL(shown).hash.slice(2));
    await answer.waitFor();
    check((await summary()).includes("upstream 2026-07-28"), `a later connection does not change what is shown of a call: ${await summary()}`);
  });
  far.stop();
  await reload();
});
await step("a call with secrets is not made again without them", async () => {
  await callBeside("notes__echo", { text: "signed in", password: "s3cret" });
  await openCall("notes:echo");
  await page.getByRole("link", { name: "Call again" }).click();
  const raw = page.getByLabel("Arguments as JSON");
  await raw.waitFor();
  check((await raw.inputValue()).includes("[redacted]"), "the secret is not there");
  const button = page.getByRole("button", { name: "Call", exact: true });
  let sent = 0;
  const count = (request) => { if (new URL(request.url()).pathname.startsWith("/mcp")) sent += 1; };
  page.on("request", count);
  await button.click();
  await page.getByRole("alert").filter({ hasText: "The secrets of the call are not kept" }).waitFor();
  await isAccessible("playground without the secrets of a call");
  check(sent === 0 && (await page.locator("section[aria-label=Result]").count()) === 0, "nothing is sent");
  await raw.fill('{"text": "signed in again", "password": "other"}');
  await button.click();
  await result();
  check((await page.textContent("section[aria-label=Result]")).includes("signed in again") && sent === 1, "it is called with another value");
  page.off("request", count);
});
await step("a page that is left reads nothing any more", async () => {
  let release, isHeld = true;
  const held = new Promise((resolve) => { release = resolve; });
  const asked = [];
  await open("yard");
  await page.route("**/api/v1/approvals", async (route) => { asked.push(Date.now()); if (isHeld) await held; await route.continue(); });
  const moreThan = async (number) => { while (asked.length <= number) await page.waitForTimeout(50); };
  await page.evaluate(() => { location.hash = "#/approvals"; });
  await page.getByRole("heading", { name: "Approvals" }).waitFor();
  // One of them may be for the number in the navigation, which is asked for every three seconds.
  const before = asked.length;
  await moreThan(before + 1);
  await page.evaluate(() => { location.hash = "#/yard"; });
  await page.waitForSelector("section[aria-label=Upstreams]");
  isHeld = false;
  release();
  const left = asked.length;
  await moreThan(left + 2);
  check(asked[left + 2] - asked[left] > 4000, `only the number in the navigation is asked for: ${asked[left + 2] - asked[left]} ms for three`);
  await page.unroute("**/api/v1/approvals");
});
await step("pages work in the dark and at 400 pixels", async () => {
  const small = await browser.newContext({ ...settings, viewport: { width: 400, height: 800 }, colorScheme: "dark" });
  const one = await small.newPage();
  watch(one);
  await one.goto(url());
  await live(one);
  await mockCluster(one);
  const { calls } = await (await fetch(`${origin}/api/v1/calls`)).json();
  const kept = `call/${calls.find((call) => call.hasDetails && call.method === "tools/call").call}`;
  const parts = { [kept]: "section[aria-label=Answer]", cluster: "section[aria-label=Nodes] tbody tr" };
  for (const name of ["yard", "calls", kept, "playground", "audit", "config", "agents", "approvals", "upstream/notes", "cluster"]) {
    await one.goto(`${origin}/ui/#/${name}`);
    if (parts[name]) await one.waitForSelector(parts[name]);
    await one.waitForTimeout(300);
    check(await one.evaluate(() => document.documentElement.scrollWidth <= 400), `${name} is not wider than the window`);
    await one.evaluate(axe);
    const { violations } = await one.evaluate(() => window.axe.run(document, { resultTypes: ["violations"] }));
    check(violations.length === 0, `${name} in the dark: ${violations.map((violation) => `${violation.id} (${violation.nodes.map((node) => node.target).slice(0, 2).join(", ")})`).join("; ")}`);
  }
  await small.close();
});
await step("eight tabs share a stream that survives its tab, and a hidden one pauses", () => checkTabs({ context, origin, check, watch, callBeside }));
await step("a gateway that is killed and started again is back within five seconds", async () => {
  await open("yard");
  gateway.removeAllListeners("exit");
  gateway.kill("SIGKILL");
  await page.waitForSelector("#connection[data-state=offline]");
  await start();
  const began = Date.now();
  await live(page);
  check(Date.now() - began < 5000, `the page is live again after ${Date.now() - began} ms`);
  await page.waitForFunction(() => !/You see states and names/.test(document.body.textContent));
});
if (update) writeFileSync(versionFile, `${browser.version()}\n`);
check(problems.length === 0, `no errors and no policy violations: ${problems.join("; ")}`);

if (flags.includes("--guide")) {
  await open("yard");
  for (let at = 0; at < 12; at += 1) { await callTool(at % 4 ? "notes:search" : "notes:echo", at % 4 ? { query: "spring" } : { text: "hello" }); await result(); }
  const guide = flags[flags.indexOf("--guide") + 1];
  for (const [name, path] of [["yard", "yard"], ["calls", "calls"], ["playground", "playground?tool=notes%3Asearch"]]) {
    await page.goto("about:blank");
    await open(path);
    await page.waitForTimeout(2500);
    const height = await page.evaluate(() => document.documentElement.scrollHeight);
    await page.setViewportSize({ width: 1280, height: Math.min(Math.max(height, 640), 1200) });
    await page.screenshot({ path: join(guide, `dashboard-${name}.png`) });
    await page.setViewportSize(settings.viewport);
  }
}
await browser.close();
gateway.removeAllListeners("exit");
gateway.kill("SIGTERM");
await new Promise((resolve) => gateway.on("exit", resolve));
if (failures.length === 0) rmSync(folder, { recursive: true, force: true });
console.log(failures.length ? `${failures.length} of ${checks} checks failed; see ${folder}` : `${checks} checks passed`);
process.exit(failures.length ? 1 : 0);
