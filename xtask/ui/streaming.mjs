// An MCP server over HTTP that answers calls with event streams. It speaks 2026-07-28, and 2025-06-18 once it was changed.

import { createServer } from "node:http";

export async function startStreaming() {
  let isOld = false;
  const http = createServer((request, response) => {
    const parts = [];
    request.on("data", (data) => parts.push(data));
    request.on("end", () => answer(request, Buffer.concat(parts).toString(), response));
  });
  await new Promise((resolve) => http.listen(0, "127.0.0.1", resolve));
  const complete = { resultType: "complete" };
  const results = () => ({
    ...(isOld ? { initialize: { protocolVersion: "2025-06-18", capabilities: { tools: {} }, serverInfo: { name: "streaming", version: "1" } } } : { "server/discover": { ...complete, supportedVersions: ["2026-07-28"], capabilities: { tools: {} } } }),
    "tools/list": { ...complete, ttlMs: 1000, cacheScope: "public", tools: [{ name: "stream", description: "Answers in two messages.", inputSchema: { type: "object", properties: {} } }] },
    "tools/call": { ...complete, content: [{ type: "text", text: "streamed" }], structuredContent: { token: "s3cret", lines: 2 } },
    ping: complete,
  });

  function answer(request, body, response) {
    if (request.method !== "POST") return response.writeHead(405).end();
    const message = JSON.parse(body);
    if (message.id === undefined) return response.writeHead(202).end();
    const result = results()[message.method];
    const reply = { jsonrpc: "2.0", id: message.id, ...(result ? { result } : { error: { code: -32601, message: `unknown method ${message.method}` } }) };
    if (message.method !== "tools/call") return response.writeHead(200, { "content-type": "application/json" }).end(JSON.stringify(reply));
    const progress = { jsonrpc: "2.0", method: "notifications/progress", params: { progressToken: message.params._meta.progressToken, progress: 1, message: "half way" } };
    response.writeHead(200, { "content-type": "text/event-stream" });
    for (const one of [progress, reply]) response.write(`event: message\ndata: ${JSON.stringify(one)}\n\n`);
    return response.end();
  }
  return { url: `http://127.0.0.1:${http.address().port}/mcp`, becomeOld: () => { isOld = true; }, stop: () => { http.closeAllConnections(); http.close(); } };
}
