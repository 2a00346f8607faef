// Signs in with a real authorization server and a real browser, on both sides of the gateway: at a hosted server, and
// at a gateway for a team behind nginx with TLS. At the end, no secret may be in any file, log or answer of the API.
//
// node run.mjs PROGRAM CHROMIUM NGINX NODE_MODULES GUIDE

import { execFileSync, spawn } from "node:child_process";
import { mkdtempSync, readFileSync, readdirSync, rmSync, statSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { createServer as createHttpServer } from "node:http";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

import { User } from "./browser.mjs";
import { startProvider } from "./provider.mjs";
import { startServer } from "./server.mjs";
import { Yard, callWithPage, legacyCallWithPage, modern, send, until } from "./yard.mjs";

const [program, chromium, nginx, modules, guide] = process.argv.slice(2);
const require = createRequire(join(modules, "x.js"));
const load = (name) => import(pathToFileURL(require.resolve(name)).href);
const { chromium: browsers } = require("playwright-core");
const [{ Provider }, jose] = [await load("oidc-provider"), await load("jose")];

const failures = [];
let checks = 0;
function check(is, what) {
  checks += 1;
  if (!is) { failures.push(what); console.log(`  FAILED: ${what}`); }
}
async function step(name, run) {
  if (process.env.ONLY && !new RegExp(process.env.ONLY).test(name)) return;
  const began = Date.now();
  try { await run(); } catch (error) { check(false, `${name}: ${error.stack}`); }
  console.log(`${name} (${Date.now() - began} ms)`);
}
const freePort = () => new Promise((resolve) => { const server = createServer().listen(0, "127.0.0.1", () => { const { port } = server.address(); server.close(() => resolve(port)); }); });

const settings = { ttl: 3600, format: "jwt", alg: "ES256" };
const provider = await startProvider({ Provider, jose }, settings);
const hosted = await startServer(jose, provider.issuer);
const browser = await browsers.launch({ executablePath: chromium, args: ["--no-sandbox"] });
const [ann, bob] = ["ann", "bob"].map((name) => new User(browser, name));
const listen = async () => `[listen]\nhttp = "127.0.0.1:${await freePort()}"\noperator_token = "operator-token-of-the-check"\n[audit]\nsync = "full"\npayloads = "redacted"\n`;
provider.seen.secrets.add("operator-token-of-the-check");
const upstream = `[upstreams.hosted]\nurl = "${hosted.url}"\n[upstreams.hosted.oauth]\ncallback_port = ${await freePort()}\n`;
const yards = [];
const yard = (config, more) => { const made = new Yard(program, config, more); yards.push(made); return made; };
const local = yard((await listen()) + upstream);
const mcp = () => `${local.url}/mcp`;
const whoami = async () => (await local.run("tools", "call", "hosted:whoami")).text;
const open = (user) => (url) => user.follow(url);

async function login(one, name, user, ...words) {
  const { child, found } = await one.begin(["login", name, "--no-browser", ...words], /^(https?:\/\/\S+)$/m);
  const page = await user.follow(found[1]);
  check((await child.ended) === 0, `the sign-in of ${user.name} at ${name} ends well: ${child.text} ${page.text}`);
}

await step("a sign-in from the command line, in the browser", async () => {
  await login(local, "hosted", ann);
  check((await whoami()).includes("you are ann"), "the tool is called as the user who signed in");
});

await step("a pasted address", async () => {
  check((await local.run("logout", "hosted")).text.includes("signed out"), "the user is signed out");
  const { child, found } = await local.begin(["login", "hosted", "--no-browser"], /^(https?:\/\/\S+)$/m);
  const { stopped } = await ann.follow(found[1], "/oauth/callback");
  child.stdin.end(`${stopped}\n`);
  check((await child.ended) === 0, `the pasted address is accepted: ${child.text}`);
  check((await whoami()).includes("you are ann"), "the tool is called after the pasted address");
});

await step("a device code", async () => {
  await local.run("logout", "hosted");
  const { child, found } = await local.begin(["login", "hosted", "--device"], /^(https?:\/\/\S+)$/m);
  await bob.follow(found[1]);
  check((await child.ended) === 0, `the device code is accepted: ${child.text}`);
  check((await whoami()).includes("you are bob"), "the tool is called as the user of the device");
});

await step("in the middle of a call of a modern client", async () => {
  await local.start();
  await until("the server is listed", async () => (await modern(mcp(), "tools/list", {})).text.includes("hosted__whoami"));
  await local.run("logout", "hosted");
  const call = await callWithPage(mcp(), "hosted__whoami", open(ann));
  check(call.asked, "the client is asked to open a page");
  check(call.url.startsWith(`${local.url}/oauth/start/`), `the page is at the address of the gateway: ${call.url}`);
  check(call.text.includes("you are ann"), `the call goes on after the sign-in: ${call.text}`);
});

await step("in the middle of a call of a legacy client", async () => {
  await local.run("logout", "hosted");
  const call = await legacyCallWithPage(mcp(), "hosted__whoami", open(bob));
  check(call.asked, "the client is asked on the stream of its call");
  check(call.text.includes("you are bob"), `the call goes on after the sign-in: ${call.text}`);
});

await step("in the middle of a call that needs more rights, with the union of scopes", async () => {
  const refresh = provider.refreshes();
  const first = await callWithPage(mcp(), "hosted__write", open(bob));
  check(first.asked, `the modern client is asked to open a page: ${first.text}`);
  check(first.text.includes("you are bob with mcp mcp:write"), `its call goes on with the scopes of before and the new one: ${first.text}`);
  const second = await legacyCallWithPage(mcp(), "hosted__manage", open(bob));
  check(second.asked, `the legacy client is asked on the stream of its call: ${second.text}`);
  check(second.text.includes("you are bob with mcp mcp:manage mcp:write"), `its call goes on with all three: ${second.text}`);
  const again = await modern(mcp(), "tools/call", { name: "hosted__write", arguments: {} });
  check(again.text.includes("you are bob with"), `the next call needs no question: ${again.text}`);
  check(provider.refreshes() === refresh, "a token with too few scopes is not refreshed without need");
});

const call = () => modern(mcp(), "tools/call", { name: "hosted__whoami", arguments: {} });
async function expire() {
  settings.ttl = 5;
  await login(local, "hosted", ann);
  settings.ttl = 3600;
  await new Promise((resolve) => setTimeout(resolve, 6000));
}

await step("32 calls at the end of a token make one refresh", async () => {
  await expire();
  const before = provider.refreshes();
  const calls = await Promise.all(Array.from({ length: 32 }, call));
  check(calls.every(({ text }) => text.includes("you are ann")), `all calls are answered: ${calls.find(({ text }) => !text.includes("you are ann"))?.text}`);
  check(provider.refreshes() - before === 1, `one refresh, not ${provider.refreshes() - before}`);
});

await step("a gateway that is killed between the token answer and its save does not loop", async () => {
  await expire();
  provider.seen.killOnRefresh = local.gateway.pid;
  await call().catch(() => {});
  await local.gateway.ended;
  check(provider.seen.killOnRefresh === null, "the gateway was killed while it refreshed");
  const before = provider.refreshes();
  await local.start();
  const answers = [];
  for (let turn = 0; turn < 5; turn += 1) answers.push((await call()).text);
  check(provider.refreshes() - before <= 1, `at most one more refresh, not ${provider.refreshes() - before}`);
  check(answers.every((text) => text.includes("you are ann") || /sign/.test(text)), `each call works or asks for a sign-in: ${answers}`);
  const again = await callWithPage(mcp(), "hosted__whoami", open(ann));
  check(again.text.includes("you are ann"), `the user signs in again: ${again.text}`);
});

await step("a revoked sign-in is a clear state", async () => {
  const { last } = provider.seen;
  const form = new URLSearchParams({ token: last.refresh_token, client_id: last.client_id });
  await send(`${provider.issuer}/token/revocation`, { headers: { "content-type": "application/x-www-form-urlencoded" }, body: form.toString() });
  hosted.state.refused.add(last.access_token);
  const { code, text } = await local.run("tools", "call", "hosted:whoami");
  check(code !== 0 && text.includes("toolyard login hosted"), `the call names the command: ${text}`);
  await until("the state `sign-in needed`", async () => (await local.run("list")).text.includes("sign-in needed")).catch(() => {});
  const list = (await local.run("list")).text;
  check(list.includes("sign-in needed"), `the list shows the state: ${list}`);
  const tools = await modern(mcp(), "tools/list", {});
  check(tools.text.includes("hosted__whoami"), "the tool stays listed");
});

// The team gateway: nginx with TLS in front, as the guide has it.
const tls = mkdtempSync(join(tmpdir(), "toolyard-nginx-"));
const [gatewayPort, tlsPort] = [await freePort(), await freePort()];
const team = `https://localhost:${tlsPort}`;
const at = (name) => join(tls, name);
const openssl = (...words) => execFileSync("openssl", words, { stdio: "ignore" });
const newKey = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj", "/CN=localhost"];
openssl("req", "-x509", ...newKey, "-keyout", at("ca.key"), "-out", at("ca.pem"));
openssl("req", "-x509", ...newKey, "-CA", at("ca.pem"), "-CAkey", at("ca.key"), "-addext", "subjectAltName=DNS:localhost", "-addext", "basicConstraints=critical,CA:FALSE", "-keyout", at("key.pem"), "-out", at("cert.pem"));
const ca = readFileSync(at("ca.pem"));
const trust = { SSL_CERT_FILE: at("ca.pem") };
const recipe = readFileSync(guide, "utf8").match(/```nginx\n([\s\S]*?)```/)[1]
  .replace("127.0.0.1:7777", `127.0.0.1:${gatewayPort}`).replace("listen 443", `listen 127.0.0.1:${tlsPort}`).replaceAll("yard.example", "localhost")
  .replace(/ssl_certificate .*;/, `ssl_certificate ${join(tls, "cert.pem")};`).replace(/ssl_certificate_key .*;/, `ssl_certificate_key ${join(tls, "key.pem")};`);
const temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"].map((name) => `${name}_temp_path ${join(tls, name)};`).join("\n");
writeFileSync(join(tls, "nginx.conf"), `daemon off;\npid ${join(tls, "pid")};\nerror_log ${join(tls, "error.log")};\nevents {}\nhttp {\naccess_log ${join(tls, "access.log")};\n${temporary}\n${recipe}\n}\n`);
const proxy = spawn(nginx, ["-p", tls, "-c", join(tls, "nginx.conf"), "-e", join(tls, "error.log")], { stdio: "inherit" });

const teamConfig = (port, more) => `[listen]\nhttp = "127.0.0.1:${port}"\npublic_url = "${team}"\noperator_token = "operator-token-of-the-check"\n[audit]\nsync = "full"\npayloads = "redacted"\n[auth.oauth]\nissuers = ["${provider.issuer}"]\nscopes = ["mcp"]\n${more}\n[policy]\ndefault = "deny"\n[[rules]]\nwho = ["role:engineering"]\ntools = "*"\ndo = "allow"\n${upstream}`;
const shared = yard(teamConfig(gatewayPort, ""));
const client = async () => yard((await listen()) + `[upstreams.team]\nurl = "${team}/mcp"\n[upstreams.team.oauth]\ncallback_port = ${await freePort()}\n`, trust);
let annsToken;

await step("a client finds the identity provider of a team gateway behind nginx, and roles decide", async () => {
  await login(shared, "hosted", bob);
  await shared.start();
  await until("nginx answers", () => send(`${team}/healthz`, { method: "GET", ca }).then(({ status }) => status === 200, () => false));
  const [annsClient, bobsClient] = [await client(), await client()];
  await login(annsClient, "team", ann);
  annsToken = provider.seen.last.access_token;
  const answer = await annsClient.run("tools", "call", "team:yard__status");
  check(answer.code === 0, `ann may call: ${answer.text}`);
  await login(bobsClient, "team", bob);
  const refused = await bobsClient.run("tools", "call", "team:yard__status");
  check(refused.code !== 0, `bob may not: ${refused.text}`);
});

await step("the gateway behind nginx refuses what it must", async () => {
  const none = await modern(`${team}/mcp`, "tools/list", {}, { ca });
  check(none.status === 401 && none.headers["www-authenticate"] === `Bearer resource_metadata="${team}/.well-known/oauth-protected-resource/mcp", scope="mcp"`, `a request without a token is challenged: ${none.status} ${none.headers["www-authenticate"]}`);
  const metadata = JSON.parse((await send(`${team}/.well-known/oauth-protected-resource/mcp`, { method: "GET", ca })).text);
  check(metadata.resource === `${team}/mcp` && metadata.authorization_servers[0] === provider.issuer, `the metadata names the provider: ${JSON.stringify(metadata)}`);
  const foreign = await send(`${team}/mcp`, { headers: { host: "evil.example", authorization: `Bearer ${annsToken}` }, body: "{}", ca });
  check(foreign.status === 403, `another Host is refused: ${foreign.status}`);
  const elsewhere = await modern(`${team}/mcp`, "tools/list", {}, { ca, token: [...hosted.state.received].at(-1) });
  check(elsewhere.status === 401, `a token for another server is refused: ${elsewhere.status}`);
  const forged = await modern(`${team}/mcp`, "tools/list", {}, { ca, token: `${annsToken.slice(0, -8)}AAAAAAAA` });
  check(forged.status === 401, `a forged token is refused: ${forged.status}`);
  const good = await modern(`${team}/mcp`, "tools/list", {}, { ca, token: annsToken });
  check(good.status === 200 && good.text.includes("hosted__whoami"), `ann sees the tools: ${good.status}`);
});

await step("each user of a team gateway has a sign-in of their own", async () => {
  const call = await callWithPage(`${team}/mcp`, "hosted__whoami", open(ann), { ca, token: annsToken });
  check(call.asked, `ann is asked to sign in, though the gateway is signed in as bob: ${call.text}`);
  check(call.url.startsWith(`${team}/oauth/start/`), `the page is below \`public_url\`: ${call.url}`);
  check(call.page?.texts.some((text) => text.includes("#ann")), "the page names the user before it goes on");
  check(call.text.includes("you are ann"), `the server is called as ann: ${call.text}`);
  check(![...hosted.state.received].includes(annsToken), "the token of the client is not passed on");
});

await step("a shared sign-in of one user serves the others", async () => {
  const auth = `[auth.oauth]\nissuers = ["${provider.issuer}"]\nscopes = ["mcp"]\n`;
  const common = yard((await listen()) + auth + upstream + `credentials = "shared"\n`);
  await login(common, "hosted", bob);
  await common.start();
  const user = async (who) => {
    await login(yard((await listen()) + `[upstreams.team]\nurl = "${common.url}/mcp"\n[upstreams.team.oauth]\ncallback_port = ${await freePort()}\n`), "team", who);
    return { token: provider.seen.last.access_token };
  };
  const [anns, bobs] = [await user(ann), await user(bob)];
  await until("the server is listed", async () => (await modern(`${common.url}/mcp`, "tools/list", {}, anns)).text.includes("hosted__whoami"));
  await common.run("logout", "hosted");
  const first = await callWithPage(`${common.url}/mcp`, "hosted__whoami", open(ann), anns);
  check(first.asked, `ann is asked to sign in: ${first.text}`);
  check(first.text.includes("you are ann"), `her call goes on: ${first.text}`);
  const second = await callWithPage(`${common.url}/mcp`, "hosted__whoami", open(bob), bobs);
  check(!second.asked, `bob is not asked: ${second.url}`);
  check(second.text.includes("you are ann"), `his call has the sign-in of ann: ${second.text}`);
  check(!hosted.state.received.has(bobs.token), "the token of bob is not passed on");
});

await step("opaque tokens are read by introspection", async () => {
  settings.format = "opaque";
  const port = await freePort();
  const opaque = yard(teamConfig(port, `[auth.oauth.introspection]\nclient_id = "yard"\nclient_secret = "introspection-secret-of-the-gateway"`));
  await opaque.start();
  await login(await client(), "team", ann);
  const token = provider.seen.last.access_token;
  check(!token.includes("."), "the token is opaque");
  const good = await modern(`${opaque.url}/mcp`, "tools/list", {}, { token });
  check(good.status === 200 && good.text.includes("yard__status"), `ann sees the tools: ${good.status} ${good.text}`);
  const bad = await modern(`${opaque.url}/mcp`, "tools/list", {}, { token: "made-up" });
  check(bad.status === 401, `a made-up token is refused: ${bad.status}`);
});

await step("a pack uses the account at a provider", async () => {
  settings.format = "jwt";
  const received = [];
  const models = createHttpServer((request, response) => {
    received.push(request.headers.authorization);
    request.resume();
    response.writeHead(200, { "content-type": "text/event-stream" });
    response.end(`data: ${JSON.stringify({ choices: [{ index: 0, delta: { content: "an answer" }, finish_reason: "stop" }] })}\n\ndata: [DONE]\n\n`);
  });
  await new Promise((resolve) => models.listen(0, "127.0.0.1", resolve));
  const pack = `[packs.models.providers.far]\nkind = "compatible"\nbase_url = "http://127.0.0.1:${models.address().port}/v1"\nlogin = "account"\n`;
  const user = yard((await listen()) + pack + `[logins.account]\nissuer = "${provider.issuer}"\nscopes = ["openid", "offline_access"]\ncallback_port = ${await freePort()}\n`);
  await user.start();
  const ask = () => modern(`${user.url}/mcp`, "tools/call", { name: "models__ask_model", arguments: { model: "far/any", prompt: "hello" } }, { token: "operator-token-of-the-check" });
  await ask();
  check(!received.some((header) => header), "without a sign-in no token is sent");
  await login(user, "account", ann);
  const { text } = await ask();
  check(text.includes("an answer"), `the model answers: ${text}`);
  check(received.at(-1) === `Bearer ${provider.seen.last.access_token}`, `the model gets the access token of the account: ${received.length}`);
  models.close();
});

await step("no secret is in any file, log, record or answer of the API", async () => {
  const texts = [];
  for (const one of yards.filter((one) => one.gateway)) {
    const headers = { authorization: "Bearer operator-token-of-the-check" };
    const read = async (path, ...also) => {
      const { status, text } = await send(`${one.url}/api/v1/${path}`, { method: "GET", headers });
      check([200, ...also].includes(status), `${path} of the API is answered: ${status} ${text.slice(0, 200)}`);
      texts.push([`${path} of the API`, text]);
      return text;
    };
    // Every path that answers at once, without parts that are not set here.
    for (const path of ["status", "upstreams", "sessions", "catalog", "calls", "report", "metrics", "logs", "definitions", "audit", "approvals", "config", "openapi.json"]) {
      await read(path);
    }
    for (const { id } of JSON.parse(await read("upstreams")).upstreams) {
      await read(`upstreams/${id}`);
      // A pack has no process, and a server that is not connected has no definitions.
      for (const part of ["definitions", "samples", "changes", "stderr"]) await read(`upstreams/${id}/${part}`, 404);
    }
    for (const { call } of JSON.parse(await read("calls?limit=50")).calls) if (call !== undefined) await read(`calls/${call}`, 404);
    await one.stop();
  }
  for (const one of yards) {
    texts.push(["output", one.words]);
    for (const file of files(one.folder).filter((file) => file !== one.config)) texts.push([file, readFileSync(file, "latin1")]);
  }
  for (const file of ["access.log", "error.log"]) texts.push([file, readFileSync(join(tls, file), "latin1")]);
  const secrets = [...provider.seen.secrets].filter((secret) => secret.length >= 16);
  check(secrets.length > 20, `there are secrets to look for: ${secrets.length}`);
  for (const [where, text] of texts) check(!secrets.some((secret) => text.includes(secret)), `no secret in ${where}`);
});

function files(folder) {
  return readdirSync(folder).flatMap((name) => {
    const path = join(folder, name), kind = statSync(path, { throwIfNoEntry: false });
    return kind?.isDirectory() ? files(path) : kind?.isFile() ? [path] : [];
  });
}

proxy.kill("SIGQUIT");
await browser.close();
provider.stop();
hosted.stop();
if (failures.length === 0) for (const folder of [tls, ...yards.map((one) => one.folder)]) rmSync(folder, { recursive: true, force: true });
console.log(`${checks - failures.length} of ${checks} checks passed`);
process.exit(failures.length === 0 ? 0 : 1);
