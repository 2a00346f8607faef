// Eight tabs of one browser: they share one stream, which survives the tab that reads it, and a hidden tab pauses.

const state = (tab, name) => tab.waitForSelector(`#connection[data-state=${name}]`, { timeout: 20000 });
const setHidden = (tab, hidden) => tab.evaluate((is) => {
  Object.defineProperty(document, "hidden", { configurable: true, get: () => is });
  document.dispatchEvent(new Event("visibilitychange"));
}, hidden);

/** Makes a call as another client; its number. */
async function makeCall(origin, callBeside) {
  await callBeside("notes__search", { query: "tabs" });
  const { calls } = await (await fetch(`${origin}/api/v1/calls`)).json();
  return calls.find((call) => call.tool === "notes:search").call;
}

export async function checkTabs({ context, origin, check, watch, callBeside }) {
  const tabs = [], reading = new Set();
  for (let at = 0; at < 8; at += 1) {
    const tab = await context.newPage();
    watch(tab);
    const isStream = (request) => request.url().endsWith("/api/v1/live");
    tab.on("request", (request) => { if (isStream(request)) reading.add(tab); });
    for (const end of ["requestfinished", "requestfailed"]) tab.on(end, (request) => { if (isStream(request)) reading.delete(tab); });
    await tab.goto(`${origin}/ui/#/calls`, { timeout: 10000 });
    tabs.push(tab);
  }
  for (const tab of tabs) await state(tab, "live");
  check(reading.size === 1, `one tab reads the stream for all: ${reading.size}`);
  const [leader] = reading, hidden = tabs.find((tab) => tab !== leader);
  await setHidden(hidden, true);
  await state(hidden, "paused");
  await leader.close();
  const visible = tabs.filter((tab) => tab !== leader && tab !== hidden);
  const call = `section[aria-label=Calls] a[href="#/call/${await makeCall(origin, callBeside)}"]`;
  for (const tab of visible) await tab.waitForSelector(call, { timeout: 20000 });
  for (const tab of visible) await state(tab, "live");
  check(visible.filter((tab) => reading.has(tab)).length === 1, "one of the others reads the stream now");
  await state(hidden, "paused");
  check((await hidden.locator(call).count()) === 0, "a hidden tab does not follow");
  await setHidden(hidden, false);
  await hidden.waitForSelector(call, { timeout: 20000 });
  await state(hidden, "live");
  for (const tab of tabs) await tab.close();
}
