// The real program in a home of its own, and small MCP clients for its gateway.

import { spawn } from "node:child_process";
import { mkdtempSync, writeFileSync } from "node:fs";
import { request as httpRequest } from "node:http";
import { request as httpsRequest } from "node:https";
import { tmpdir } from "node:os";
import { join } from "node:path";

export class Yard {
  constructor(program, config, more = {}) {
    this.program = program;
    this.folder = mkdtempSync(join(tmpdir(), "toolyard-sign-in-"));
    this.config = join(this.folder, "config.toml");
    this.words = "";
    this.env = { PATH: process.env.PATH, HOME: this.folder, XDG_RUNTIME_DIR: this.folder, ...more };
    writeFileSync(this.config, config);
  }

  spawn(words) {
    const child = spawn(this.program, ["--config", this.config, "--state-dir", join(this.folder, "state"), ...words], { env: this.env });
    child.text = "";
    for (const stream of [child.stdout, child.stderr]) stream.on("data", (data) => { child.text += data; this.words += data; });
    child.ended = new Promise((resolve) => child.on("close", (code) => resolve(code)));
    return child;
  }

  /** Runs a command to its end. */
  async run(...words) {
    const child = this.spawn(words);
    child.stdin.end();
    const code = await child.ended;
    return { code, text: child.text };
  }

  /** Starts a command and waits for a line of its output that matches. */
  async begin(words, pattern) {
    const child = this.spawn(words);
    await until(`${words.join(" ")} prints ${pattern}`, () => pattern.test(child.text) || child.exitCode !== null);
    const found = child.text.match(pattern);
    if (!found) throw new Error(`${words.join(" ")}: ${child.text}`);
    return { child, found };
  }

  /** Starts the gateway. */
  async start() {
    const { child, found } = await this.begin(["serve", "--no-apps", "--no-instances", "--log-level", "debug"], /listening on (http:\/\/\S+)/);
    this.gateway = child;
    this.url = found[1];
    return this;
  }

  async stop() {
    if (this.gateway?.exitCode === null) this.gateway.kill("SIGTERM");
    await this.gateway?.ended;
  }
}

export async function until(what, look, patience = 20_000) {
  for (const end = Date.now() + patience; Date.now() < end; ) {
    const found = await look();
    if (found) return found;
    await new Promise((resolve) => setTimeout(resolve, 25));
  }
  throw new Error(`not in time: ${what}`);
}

/** One HTTP exchange: status, headers and text. `each` sees the text as it comes. */
export function send(url, { method = "POST", headers = {}, body, ca, each } = {}) {
  const request = url.startsWith("https") ? httpsRequest : httpRequest;
  return new Promise((resolve, reject) => {
    const sent = request(url, { method, headers, ca, agent: false, servername: "localhost" }, (response) => {
      let text = "";
      response.on("data", (data) => { text += data; each?.(text); });
      response.on("end", () => resolve({ status: response.statusCode, headers: response.headers, text }));
      response.on("error", reject);
    });
    sent.on("error", reject);
    sent.end(body);
  });
}

/** The messages in an answer, whether it is JSON or an event stream. */
export const messages = (text) => text.split("\n").map((line) => line.replace(/^data: ?/, "")).filter((line) => line.startsWith("{")).flatMap((line) => { try { return [JSON.parse(line)]; } catch { return []; } });

const JSON_HEADERS = { "content-type": "application/json", accept: "application/json, text/event-stream" };
const bearer = (token) => (token ? { authorization: `Bearer ${token}` } : {});

/** One request of a client of 2026-07-28 that can show pages. */
export async function modern(url, method, params, { token, ca, more = {} } = {}) {
  const prefix = "io.modelcontextprotocol/";
  const meta = { [`${prefix}protocolVersion`]: "2026-07-28", [`${prefix}clientCapabilities`]: { elicitation: { url: {} } }, [`${prefix}clientInfo`]: { name: "check", version: "1" } };
  const headers = { ...JSON_HEADERS, ...bearer(token), "mcp-protocol-version": "2026-07-28", "mcp-method": method, ...(params.name ? { "mcp-name": params.name } : {}) };
  const body = JSON.stringify({ jsonrpc: "2.0", id: 1, method, params: { ...params, ...more, _meta: meta } });
  const answer = await send(url, { headers, body, ca });
  return { ...answer, message: messages(answer.text).find((message) => message.result || message.error) };
}

/** A call of a modern client whose user opens the page that the call asks for. */
export async function callWithPage(url, name, open, options = {}) {
  const params = { name, arguments: {} };
  const first = await modern(url, "tools/call", params, options);
  const result = first.message?.result;
  if (!result?.inputRequests) return { asked: false, text: first.text, page: null, url: "" };
  const [[key, question]] = Object.entries(result.inputRequests);
  const page = await open(question.params.url);
  const more = { requestState: result.requestState, inputResponses: { [key]: { action: "accept" } } };
  const second = await modern(url, "tools/call", params, { ...options, more });
  return { asked: true, text: second.text, page, url: question.params.url };
}

/** The same of a client of 2025-11-25, which is asked on the stream of its call. */
export async function legacyCallWithPage(url, name, open) {
  const post = (message, session, each) => send(url, { headers: { ...JSON_HEADERS, ...(session ? { "mcp-session-id": session, "mcp-protocol-version": "2025-11-25" } : {}) }, body: JSON.stringify({ jsonrpc: "2.0", ...message }), each });
  const opened = await post({ id: 0, method: "initialize", params: { protocolVersion: "2025-11-25", capabilities: { elicitation: { url: {} } }, clientInfo: { name: "check", version: "1" } } });
  const session = opened.headers["mcp-session-id"];
  await post({ method: "notifications/initialized" }, session);
  let page;
  const call = await post({ id: 1, method: "tools/call", params: { name, arguments: {} } }, session, (text) => {
    const question = messages(text).find((message) => message.method === "elicitation/create");
    if (!question || page) return;
    page = open(question.params.url).then(async (opened) => { await post({ id: question.id, result: { action: "accept" } }, session); return opened; });
  });
  return { asked: page !== undefined, text: call.text, page: await page };
}
