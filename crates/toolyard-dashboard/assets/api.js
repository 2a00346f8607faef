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
 * Follows the state of the gateway. Browsers open few connections to one server, so visible tabs share one stream: the
 * tab that holds the lock reads it and passes it on. A hidden tab lets go of it.
 *
 * `snapshot` gives the whole state for a tab that has just been opened.
 */
export function follow(onEvent, onState, snapshot) {
  const name = `toolyard-live-${isSignedIn() ? "operator" : "reader"}`;
  const channel = typeof BroadcastChannel === "function" && navigator.locks ? new BroadcastChannel(name) : null;
  let stop = null;
  let isLeader = false;
  let received = 0;
  const deliver = (event, data) => { received = Date.now(); onState("live"); onEvent(event, data); };

  async function read(signal) {
    let wait = 500;
    while (!signal.aborted) {
      try {
        const response = await fetch(`${BASE}/live`, { headers: authorization(), signal });
        if (!response.ok) {
          if (response.status === 401) keep(null);
          throw new Error(`status ${response.status}`);
        }
        wait = 500;
        await readEvents(response, (event, text) => {
          const data = JSON.parse(text);
          deliver(event, data);
          channel?.postMessage({ event, data });
        });
      } catch { /* tried again below */ }
      if (signal.aborted) return;
      onState("offline");
      channel?.postMessage({ offline: true });
      await new Promise((resolve) => setTimeout(resolve, wait));
      wait = Math.min(wait * 1.5, 2000);
    }
  }

  async function run() {
    if (stop || document.hidden) return;
    stop = new AbortController();
    const { signal } = stop;
    if (!channel) { read(signal); return; }
    channel.postMessage({ ask: true });
    try {
      await navigator.locks.request(name, { signal }, async () => {
        isLeader = true;
        await read(signal);
        isLeader = false;
      });
    } catch { /* the page was hidden before it had the lock */ }
  }

  channel?.addEventListener("message", ({ data }) => {
    if (document.hidden) return;
    if (data.ask && isLeader) channel.postMessage({ event: "state", data: snapshot(), isCopy: true });
    else if (data.offline) onState("offline");
    else if (data.event && !isLeader && !(data.isCopy && received)) deliver(data.event, data.data);
  });
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) {
      stop?.abort();
      stop = null;
      received = 0;
      onState("paused");
    } else {
      run();
    }
  });
  run();
}
