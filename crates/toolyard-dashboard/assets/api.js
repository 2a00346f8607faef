// The control API. The token of this tab is in the session storage, never in a cookie or an address.

const BASE = "/api/v1";
const KEY = "toolyard-token";

let token = null;
try { token = sessionStorage.getItem(KEY); } catch { /* storage is switched off */ }

export function isSignedIn() {
  return token !== null;
}

function keep(value) {
  token = value;
  try {
    if (value === null) sessionStorage.removeItem(KEY);
    else sessionStorage.setItem(KEY, value);
  } catch { /* the token lasts as long as the page */ }
}

/** Exchanges the code in the address for a token; the code is removed from the address in any case. */
export async function signIn() {
  const found = /(?:^#|&)code=([0-9a-f]+)/.exec(location.hash);
  if (!found) return null;
  history.replaceState(null, "", `${location.pathname}#/yard`);
  const response = await fetch(`${BASE}/ui/sessions`, {
    method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify({ code: found[1] }),
  });
  const body = await response.json();
  if (!response.ok) return body.error?.message ?? "the code was refused";
  keep(body.token);
  return null;
}

export function authorization() {
  return token === null ? {} : { authorization: `Bearer ${token}` };
}

export class ApiError extends Error {
  constructor(status, code, message) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

async function request(method, path, body) {
  const headers = authorization();
  if (body !== undefined) headers["content-type"] = "application/json";
  const response = await fetch(BASE + path, { method, headers, body: body === undefined ? undefined : JSON.stringify(body) });
  const type = response.headers.get("content-type") ?? "";
  const answer = type.startsWith("application/json") ? await response.json() : { text: await response.text() };
  if (response.ok) return answer;
  if (response.status === 401) keep(null);
  throw new ApiError(response.status, answer.error?.code, answer.error?.message ?? answer.text ?? `status ${response.status}`);
}

export const get = (path) => request("GET", path);
export const post = (path, body = {}) => request("POST", path, body);

let described = null;
/** Whether this gateway has a path: parts that are not configured add none. */
export async function offers(path) {
  described ??= get("/openapi.json");
  try { return path in (await described).paths; } catch { described = null; return false; }
}

/** Reads server-sent events from a response until it ends. */
export async function readEvents(response, each) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    rest += value;
    let end;
    while ((end = rest.search(/\r?\n\r?\n/)) >= 0) {
      const block = rest.slice(0, end);
      rest = rest.slice(end).replace(/^\r?\n\r?\n/, "");
      const data = [];
      let name = "message";
      for (const line of block.split(/\r?\n/)) {
        if (line.startsWith("data:")) data.push(line.slice(5).replace(/^ /, ""));
        else if (line.startsWith("event:")) name = line.slice(6).trim();
      }
      if (data.length) each(name, data.join("\n"));
    }
  }
}

/**
 * Follows the state of the gateway. The stream is closed while the page is hidden: browsers open few connections to
 * one server, and a hidden tab must not take one from a visible tab.
 */
export function follow(onEvent, onState) {
  let abort = null;
  let wait = 500;
  async function run() {
    if (abort || document.hidden) return;
    abort = new AbortController();
    const own = abort;
    try {
      const response = await fetch(`${BASE}/live`, { headers: authorization(), signal: own.signal });
      if (!response.ok) {
        if (response.status === 401) keep(null);
        throw new Error(`status ${response.status}`);
      }
      wait = 500;
      await readEvents(response, (name, data) => { onState("live"); onEvent(name, JSON.parse(data)); });
      throw new Error("the stream has ended");
    } catch {
      if (abort === own) abort = null;
      if (document.hidden) { onState("paused"); return; }
      onState("offline");
      setTimeout(run, wait);
      wait = Math.min(wait * 1.5, 2000);
    }
  }
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) {
      abort?.abort();
      abort = null;
      onState("paused");
    } else {
      run();
    }
  });
  run();
}
