// A server on the TypeScript SDK over stdio.
import { McpServer } from "@modelcontextprotocol/server";
import { StdioServerTransport } from "@modelcontextprotocol/server/stdio";
import { z } from "zod";
import { tracing } from "./spans.mjs";

const { span } = tracing("typescript-server");
const server = new McpServer({ name: "typescript-end", version: "1" });
server.registerTool("echo", { description: "Answers with its text.", inputSchema: z.object({ text: z.string() }) }, ({ text }, extra) => {
  const meta = extra.mcpReq?._meta ?? extra._meta;
  return span("tools/call echo", "SERVER", meta, async () => ({ content: [{ type: "text", text: `TypeScript: ${text}` }] }));
});
await server.connect(new StdioServerTransport());
