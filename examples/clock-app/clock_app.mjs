// @ts-check
// An app in JavaScript with TypeScript's types in comments, and nothing but Node: the bare protocol of
// docs/guide/app-protocol.md.
//
//     node clock_app.mjs [HOST:PORT]
import { connect } from "node:net";
import { createInterface } from "node:readline";

/** @typedef {{ about: string, schema: object, run: (given: any) => unknown }} Tool */
/** @typedef {import("node:net").Socket} Socket */

/** @type {Record<string, Tool>} */
const tools = {
  now: {
    about: "Tells the time, in seconds since 1970",
    schema: { type: "object" },
    run: () => String(Math.floor(Date.now() / 1000)),
  },
  add: {
    about: "Adds two numbers",
    schema: { type: "object", properties: { a: { type: "number" }, b: { type: "number" } }, required: ["a", "b"] },
    run: (given) => ({ sum: given.a + given.b }),
  },
  ring: {
    about: "Rings the bell, which this clock does not have",
    schema: { type: "object" },
    run: () => {
      throw new Error("the bell is missing");
    },
  },
};

const [host, port] = (process.argv[2] ?? "127.0.0.1:5100").split(":");
/** @type {string | undefined} */
let session;
let wait = 1000;

/** @type {(socket: Socket, message: object) => void} */
function send(socket, message) {
  socket.write(JSON.stringify(message) + "\n");
}

/** @type {(socket: Socket, call: any) => Promise<void>} */
async function answer(socket, call) {
  let result;
  try {
    result = { success: true, data: await tools[call.tool].run(call.parameters ?? {}), error: null };
  } catch (error) {
    result = { success: false, data: null, error: error instanceof Error ? error.message : String(error) };
  }
  send(socket, { type: "toolResponse", correlationId: call.correlationId, result });
}

/** @type {(socket: Socket, message: any) => void} */
function take(socket, message) {
  if (message.type === "registered") {
    session = message.sessionId || session;
  } else if (message.type === "refused") {
    console.error(message.reason, message.guidance);
  } else if (message.type === "toolInvocation") {
    void answer(socket, message);
  } else if (message.type === "heartbeat" && !message.answer) {
    send(socket, { type: "heartbeat", answer: true });
  }
}

function dial() {
  const socket = connect({ host, port: Number(port) });
  socket.on("connect", () => {
    wait = 1000;
    const offered = Object.entries(tools).map(([name, tool]) => ({
      name,
      description: tool.about,
      inputSchema: tool.schema,
    }));
    send(socket, { type: "register", appName: "NodeClock", version: 1, sessionId: session, tools: offered });
  });
  createInterface({ input: socket }).on("line", (line) => take(socket, JSON.parse(line)));
  socket.on("error", () => {});
  socket.on("close", () => {
    setTimeout(dial, wait);
    wait = Math.min(wait * 2, 30_000);
  });
}

dial();
