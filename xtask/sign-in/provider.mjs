// A real authorization server (npm `oidc-provider`) on loopback. Keeps every secret that it hands out, so that the
// check can look for them, and counts the requests to its token endpoint.

import { createServer } from "node:http";

/** Starts the server. `ttl` and `format` of `settings` may be changed while it runs. */
export async function startProvider({ Provider, jose }, settings) {
  const http = createServer();
  await new Promise((resolve) => http.listen(0, "127.0.0.1", resolve));
  const issuer = `http://127.0.0.1:${http.address().port}`;
  const key = async (alg) => ({ ...(await jose.exportJWK((await jose.generateKeyPair(alg, { extractable: true })).privateKey)), alg, use: "sig", kid: alg });
  const provider = new Provider(issuer, {
    clients: [{ client_id: "yard", client_secret: "introspection-secret-of-the-gateway", grant_types: [], redirect_uris: [], response_types: [] }],
    jwks: { keys: [await key("RS256"), await key("ES256")] },
    cookies: { keys: ["for the check"] },
    scopes: ["openid", "offline_access", "mcp", "mcp:write", "mcp:manage"],
    findAccount: (_ctx, id) => ({ accountId: id, claims: () => ({ sub: id }) }),
    extraTokenClaims: (_ctx, token) => ({ groups: token.accountId === "ann" ? ["engineering"] : ["sales"] }),
    issueRefreshToken: () => true,
    features: {
      registration: { enabled: true },
      deviceFlow: { enabled: true },
      introspection: { enabled: true, allowedPolicy: () => true },
      revocation: { enabled: true },
      resourceIndicators: {
        enabled: true,
        useGrantedResource: () => true,
        getResourceServerInfo: (_ctx, resource) => ({
          scope: "mcp mcp:write mcp:manage", audience: resource, accessTokenTTL: settings.ttl, accessTokenFormat: settings.format,
          jwt: { sign: { alg: settings.alg } },
        }),
      },
    },
  });
  const seen = { secrets: new Set(["introspection-secret-of-the-gateway"]), grants: [], last: {}, killOnRefresh: null };
  const handle = provider.callback();
  http.on("request", (request, response) => {
    watch(seen, request, response);
    handle(request, response);
  });
  const refreshes = () => seen.grants.filter((grant) => grant === "refresh_token").length;
  return { issuer, seen, refreshes, stop: () => http.close() };
}

/** Notes what is sent to the token endpoint and what it answers. */
function watch(seen, request, response) {
  const path = request.url.split("?")[0];
  const code = new URL(request.url, "http://x").searchParams.get("code");
  if (code) seen.secrets.add(code);
  if (!["/token", "/reg", "/device/auth"].includes(path)) return;
  const sent = [], answered = [];
  request.on("data", (data) => sent.push(data));
  const end = response.end.bind(response);
  response.end = (data, ...rest) => {
    if (data) answered.push(Buffer.from(data));
    const form = new URLSearchParams(Buffer.concat(sent).toString());
    let body = {};
    try { body = JSON.parse(Buffer.concat(answered).toString()); } catch { /* an empty answer */ }
    for (const name of ["access_token", "refresh_token", "client_secret", "registration_access_token", "device_code"]) if (body[name]) seen.secrets.add(body[name]);
    for (const name of ["code", "code_verifier"]) if (form.get(name)) seen.secrets.add(form.get(name));
    if (path === "/token") {
      seen.grants.push(form.get("grant_type"));
      if (body.access_token) seen.last = { ...body, client_id: form.get("client_id") };
    }
    const ended = end(data, ...rest);
    if (path === "/token" && form.get("grant_type") === "refresh_token" && seen.killOnRefresh) {
      process.kill(seen.killOnRefresh, "SIGKILL");
      seen.killOnRefresh = null;
    }
    return ended;
  };
}
