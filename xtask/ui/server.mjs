// A small MCP server over stdio for the browser tests: newline-delimited JSON-RPC, revision 2025-06-18, no packages.
// Arguments: the number of extra tools.

import { createInterface } from "node:readline";

const extra = Number(process.argv[2] ?? 0);
const HOSTILE = "<img src=x onerror=alert(1)>";
const text = (value) => ({ content: [{ type: "text", text: value }] });
const object = (properties, required = []) => ({ type: "object", properties, required });

let version = 1;
const tools = () => [
  { name: "echo", title: "Echo", description: "Returns its text.", inputSchema: object({ text: { type: "string", description: "What to return." }, times: { type: "integer", description: "How often.", default: 1 } }, ["text"]), annotations: { readOnlyHint: true } },
  { name: "search", description: "Searches the notes and returns those that fit.", inputSchema: object({ query: { type: "string" }, limit: { type: "integer", minimum: 1, maximum: 50 }, order: { enum: ["newest", "best"] } }, ["query"]), annotations: { readOnlyHint: true } },
  { name: "slow", description: "Waits, with progress, for as many seconds as asked.", inputSchema: object({ seconds: { type: "number" } }, ["seconds"]) },
  { name: "fail", description: "Always fails.", inputSchema: object({}) },
  { name: "ask", description: "Asks for a name before it answers.", inputSchema: object({}) },
  { name: "big", description: "Returns five megabytes.", inputSchema: object({}) },
  { name: "remove", description: version > 1 ? "Removes a note, and everything that links to it." : "Removes a note.", inputSchema: object({ id: { type: "string" } }, ["id"]), annotations: { destructiveHint: true } },
  { name: "change", description: "Changes the definition of another tool.", inputSchema: object({}) },
  { name: HOSTILE, description: `${HOSTILE}<script>alert(2)</script>`, inputSchema: object({ [HOSTILE]: { type: "string", title: HOSTILE, description: HOSTILE } }) },
  ...Array.from({ length: extra }, (_, at) => ({ name: `tool_${at}`, description: `Extra tool number ${at}.`, inputSchema: object({ value: { type: "string" } }) })),
];

const waiting = new Map();
let next = 1;
const send = (message) => process.stdout.write(`${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`);
const ask = (method, params) => new Promise((resolve) => {
  const id = `q${next++}`;
  waiting.set(id, resolve);
  send({ id, method, params });
});

async function call({ name, arguments: args = {}, _meta = {} }) {
  switch (name) {
    case "echo": return text(Array(args.times ?? 1).fill(args.text).join("\n"));
    case "search": return { ...text(`3 notes fit "${args.query}"`), structuredContent: { notes: ["Plan for spring", "Ideas", "Shopping"].map((title, at) => ({ id: at + 1, title })) } };
    case "slow": {
      const steps = Math.ceil(args.seconds * 10);
      for (let at = 1; at <= steps; at++) {
        await new Promise((resolve) => setTimeout(resolve, 100));
        if (_meta.progressToken !== undefined) send({ method: "notifications/progress", params: { progressToken: _meta.progressToken, progress: at, total: steps, message: `step ${at} of ${steps}` } });
      }
      return text("done");
    }
    case "fail": return { ...text("the disk is full"), isError: true };
    case "ask": {
      const answer = await ask("elicitation/create", { message: "What is your name?", requestedSchema: object({ name: { type: "string", title: "Name" } }, ["name"]) });
      return text(answer.action === "accept" ? `Hello ${answer.content.name}` : `no name: ${answer.action}`);
    }
    case "big": return text("x".repeat(5 * 1024 * 1024));
    case "change": version += 1; send({ method: "notifications/tools/list_changed" }); return text("changed");
    default:
      if (!tools().some((tool) => tool.name === name)) throw Object.assign(new Error(`unknown tool ${name}`), { code: -32602 });
      return text(`called ${name}`);
  }
}

async function answer({ method, params = {} }) {
  switch (method) {
    case "initialize": return { protocolVersion: "2025-06-18", capabilities: { tools: { listChanged: true } }, serverInfo: { name: "notes", title: "Notes", version: "1.4.0" } };
    case "tools/list": return { tools: tools() };
    case "tools/call": return call(params);
    case "ping": return {};
    default: throw Object.assign(new Error(`unknown method ${method}`), { code: -32601 });
  }
}

console.error("notes server ready");
createInterface({ input: process.stdin }).on("line", async (line) => {
  const message = JSON.parse(line);
  if (message.method === undefined) { waiting.get(message.id)?.(message.result ?? { action: "cancel" }); return; }
  if (message.id === undefined) return;
  try { send({ id: message.id, result: await answer(message) }); } catch (error) { send({ id: message.id, error: { code: error.code ?? -32603, message: error.message } }); }
});
