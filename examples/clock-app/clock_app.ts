// An app in TypeScript and nothing but Node: the bare protocol of docs/guide/app-protocol.md.
//
//     node clock_app.ts [HOST:PORT]
//
// Node runs it as it is from 22.18 on; `npm install && npm run check` looks at its types.
import { connect, type Socket } from "node:net";
import { createInterface } from "node:readline";

type Given = Record<string, unknown>;

interface Tool {
  readonly about: string;
  readonly schema: object;
  readonly run: (given: Given) => unknown;
}

/** Messages from the gateway. Later versions may add more types; unknown ones are ignored. */
type FromGateway =
  | { type: "registered"; sessionId: string; refused: { name: string; reason: string }[] }
  | { type: "refused"; reason: string; guidance?: string }
  | { type: "toolInvocation"; correlationId: number; tool: string; parameters: Given | null }
  | { type: "heartbeat"; answer?: boolean };

type Result = { success: true; data: unknown; error: null } | { success: false; data: null; error: string };

/** Messages from the app. */
type FromApp =
  | { type: "register"; appName: string; version: 1; sessionId?: string; tools: Offered[] }
  | { type: "toolResponse"; correlationId: number; result: Result }
  | { type: "heartbeat"; answer: true };

interface Offered {
  name: string;
  description: string;
  inputSchema: object;
}

const tools: ReadonlyMap<string, Tool> = new Map<string, Tool>([
  ["now", {
    about: "Returns the time, in seconds since 1970",
    schema: { type: "object" },
    run: () => String(Math.floor(Date.now() / 1000)),
  }],
  ["add", {
    about: "Adds two numbers",
    schema: { type: "object", properties: { a: { type: "number" }, b: { type: "number" } }, required: ["a", "b"] },
    run: (given) => ({ sum: Number(given["a"]) + Number(given["b"]) }),
  }],
  ["ring", {
    about: "Rings the bell, which this clock does not have",
    schema: { type: "object" },
    run: () => {
      throw new Error("the bell is missing");
    },
  }],
]);

const [host = "127.0.0.1", port = "5100"] = (process.argv[2] ?? "").split(":").filter((part) => part !== "");
let session: string | undefined;
let wait = 1000;

function send(socket: Socket, message: FromApp): void {
  socket.write(JSON.stringify(message) + "\n");
}

async function result(name: string, given: Given): Promise<Result> {
  try {
    const tool = tools.get(name);
    if (tool === undefined) {
      throw new Error(`there is no tool ${name}`);
    }
    return { success: true, data: await tool.run(given), error: null };
  } catch (error) {
    return { success: false, data: null, error: error instanceof Error ? error.message : String(error) };
  }
}

async function take(socket: Socket, message: FromGateway): Promise<void> {
  switch (message.type) {
    case "registered":
      session = message.sessionId || session;
      for (const { name, reason } of message.refused) {
        console.error(`${name}: ${reason}`);
      }
      break;
    case "refused":
      console.error(message.reason, message.guidance ?? "");
      break;
    case "toolInvocation": {
      const { correlationId, tool, parameters } = message;
      send(socket, { type: "toolResponse", correlationId, result: await result(tool, parameters ?? {}) });
      break;
    }
    case "heartbeat":
      if (!message.answer) {
        send(socket, { type: "heartbeat", answer: true });
      }
  }
}

function register(socket: Socket): void {
  const offered = [...tools].map(([name, { about, schema }]) => ({ name, description: about, inputSchema: schema }));
  const known = session === undefined ? {} : { sessionId: session };
  send(socket, { type: "register", appName: "NodeClock", version: 1, ...known, tools: offered });
}

/** Reconnects without end. The pause grows with each attempt and is reset by a successful connection. */
function dial(): void {
  const socket = connect({ host, port: Number(port) });
  socket.on("connect", () => {
    wait = 1000;
    register(socket);
  });
  createInterface({ input: socket }).on("line", (line) => {
    if (line.trim() !== "") {
      void take(socket, JSON.parse(line) as FromGateway);
    }
  });
  socket.on("error", () => {});
  socket.on("close", () => {
    setTimeout(dial, wait);
    wait = Math.min(wait * 2, 30_000);
  });
}

dial();
