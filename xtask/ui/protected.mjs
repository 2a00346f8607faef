// A protected MCP server of 2025-06-18 with an authorization server on the same port. Opening its sign-in page signs
// the user in at once. Its tokens can be revoked.

import { randomUUID } from "node:crypto";
import { createServer } from "node:http";

export async function startProtected() {
  const tokens = new Set(), codes = new Set();
  let asked = 0;
  const http = createServer((request, response) => {
    const parts = [];
    request.on("data", (data) => parts.push(data));
    request.on("end", () => answer(request, Buffer.concat(parts).toString(), response));
  });
  await new Promise((resolve) => http.listen(0, "127.0.0.1", resolve));
  const base = `http://127.0.0.1:${http.address().port}`;
  const json = (response, status, body, headers = {}) => response.writeHead(status, { "content-type": "application/json", ...headers }).end(JSON.stringify(body));
  const metadata = {
    issuer: base, authorization_endpoint: `${base}/authorize`, token_endpoint: `${base}/token`, registration_endpoint: `${base}/register`,
    response_types_supported: ["code"], code_challenge_methods_supported: ["S256"], token_endpoint_auth_methods_supported: ["none"],
  };

  function answer(request, body, response) {
    const url = new URL(request.url, base);
    switch (url.pathname) {
      case "/.well-known/oauth-protected-resource/mcp": return json(response, 200, { resource: `${base}/mcp`, authorization_servers: [base] });
      case "/.well-known/oauth-authorization-server": return json(response, 200, metadata);
      case "/register": return json(response, 201, { client_id: "registered" });
      case "/authorize": {
        asked += 1;
        const code = randomUUID(), back = new URL(url.searchParams.get("redirect_uri"));
        codes.add(code);
        back.searchParams.set("code", code);
        back.searchParams.set("state", url.searchParams.get("state"));
        return response.writeHead(303, { location: back.href }).end();
      }
      case "/token": {
        if (!codes.delete(new URLSearchParams(body).get("code"))) return json(response, 400, { error: "invalid_grant" });
        const token = randomUUID();
        tokens.add(token);
        return json(response, 200, { access_token: token, token_type: "Bearer", expires_in: 3600 });
      }
      case "/mcp": return mcp(request, body, response);
      default: return json(response, 404, {});
    }
  }

  function mcp(request, body, response) {
    if (request.method !== "POST") return json(response, 405, {});
    if (!tokens.has((request.headers.authorization ?? "").replace(/^Bearer /, ""))) {
      return json(response, 401, {}, { "www-authenticate": `Bearer resource_metadata="${base}/.well-known/oauth-protected-resource/mcp"` });
    }
    const message = JSON.parse(body);
    if (message.id === undefined) return response.writeHead(202).end();
    const results = {
      initialize: { protocolVersion: "2025-06-18", capabilities: { tools: {} }, serverInfo: { name: "protected", version: "1" } },
      "tools/list": { tools: [{ name: "secret", description: "Returns a secret.", inputSchema: { type: "object", properties: {} }, annotations: { readOnlyHint: true } }] },
      "tools/call": { content: [{ type: "text", text: "the secret is 42" }] },
      ping: {},
    };
    const result = results[message.method];
    return json(response, 200, { jsonrpc: "2.0", id: message.id, ...(result ? { result } : { error: { code: -32601, message: "unknown" } }) });
  }
  return { url: `${base}/mcp`, revoke: () => tokens.clear(), asked: () => asked, stop: () => { http.closeAllConnections(); http.close(); } };
}
