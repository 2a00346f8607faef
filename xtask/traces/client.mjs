// A client on the TypeScript SDK: `client.mjs URL TOOL`.
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { tracing } from "./spans.mjs";

const [url, tool] = process.argv.slice(2);
const { span, carrier, end } = tracing("typescript-client");
const client = new Client({ name: "typescript-end", version: "1" }, { versionNegotiation: { mode: "auto" } });
await client.connect(new StreamableHTTPClientTransport(new URL(url)));
const result = await span(`ask for ${tool}`, "CLIENT", null, () => client.callTool({ name: tool, arguments: { text: "hello" }, _meta: carrier() }));
console.log(result.content[0].text);
await client.close();
await end();
