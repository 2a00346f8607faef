// A protected MCP server of 2025-11-25: the tool `whoami` names the user of the token that it was called with; `write` and
// `manage` need one more scope each, and name the scopes of the token as well.

import { createServer } from "node:http";

/** The scope that a tool needs beside `mcp`. */
const NEEDS = { write: "mcp:write", manage: "mcp:manage" };

export async function startServer(jose, issuer) {
  const state = { refused: new Set(), received: new Set() };
  const http = createServer((request, response) => {
    const parts = [];
    request.on("data", (data) => parts.push(data));
    request.on("end", () => answer(request, Buffer.concat(parts).toString(), response).catch((error) => response.writeHead(500).end(String(error))));
  });
  await new Promise((resolve) => http.listen(0, "127.0.0.1", resolve));
  const base = `http://127.0.0.1:${http.address().port}`;
  const keys = jose.createRemoteJWKSet(new URL(`${issuer}/jwks`));
  const json = (response, status, body, headers = {}) => response.writeHead(status, { "content-type": "application/json", ...headers }).end(JSON.stringify(body));

  async function answer(request, body, response) {
    if (request.url === "/.well-known/oauth-protected-resource/mcp") {
      return json(response, 200, { resource: `${base}/mcp`, authorization_servers: [issuer], scopes_supported: ["mcp"] });
    }
    if (request.url !== "/mcp") return json(response, 404, {});
    if (request.method !== "POST") return json(response, 405, {});
    const token = (request.headers.authorization ?? "").replace(/^Bearer /, "");
    if (token) state.received.add(token);
    const verified = await jose.jwtVerify(token, keys, { issuer, audience: `${base}/mcp` }).catch(() => null);
    if (!verified || state.refused.has(token)) {
      const challenge = `Bearer resource_metadata="${base}/.well-known/oauth-protected-resource/mcp", scope="mcp"`;
      return json(response, 401, {}, { "www-authenticate": challenge });
    }
    const message = JSON.parse(body);
    if (message.id === undefined) return response.writeHead(202).end();
    const scopes = String(verified.payload.scope ?? "").split(" ").sort();
    const needed = message.method === "tools/call" ? NEEDS[message.params.name] : undefined;
    if (needed && !scopes.includes(needed)) {
      // Only the scope that is missing: the client must not lose those that it has.
      const challenge = `Bearer error="insufficient_scope", scope="${needed}", resource_metadata="${base}/.well-known/oauth-protected-resource/mcp"`;
      return json(response, 403, {}, { "www-authenticate": challenge });
    }
    const results = {
      initialize: { protocolVersion: "2025-11-25", capabilities: { tools: {} }, serverInfo: { name: "hosted", version: "1" } },
      "tools/list": { tools: ["whoami", ...Object.keys(NEEDS)].map((name) => ({ name, inputSchema: { type: "object" } })) },
      "tools/call": { content: [{ type: "text", text: `you are ${verified.payload.sub}${needed ? ` with ${scopes.join(" ")}` : ""}` }] },
    };
    const result = results[message.method];
    json(response, 200, { jsonrpc: "2.0", id: message.id, ...(result ? { result } : { error: { code: -32601, message: "unknown" } }) });
  }
  return { url: `${base}/mcp`, state, stop: () => http.close() };
}
