// A user with Chromium: signs in and agrees to everything, page by page, until there is nothing more to click.

export class User {
  constructor(browser, name) {
    this.browser = browser;
    this.name = name;
  }

  /** Opens `url` and goes on to the end. With `stopAt`, the request for that path is not sent; its address is returned. */
  async follow(url, stopAt) {
    const context = await this.browser.newContext({ ignoreHTTPSErrors: true });
    let stopped;
    await context.route("**/*", (route) => {
      const to = new URL(route.request().url());
      if (stopAt && to.pathname === stopAt) { stopped ??= to.href; return route.abort(); }
      return ["127.0.0.1", "localhost"].includes(to.hostname) ? route.continue() : route.abort();
    });
    const page = await context.newPage();
    const texts = [];
    try {
      await page.goto(url).catch((error) => { if (!stopped) throw error; });
      for (let turns = 0; turns < 12 && !stopped; turns += 1) {
        const text = await page.locator("body").innerText();
        texts.push(text);
        const button = page.locator("button[type=submit], button:not([type]), input[type=submit]").filter({ visible: true }).first();
        if (/signed in|Sign-in Success|was successful|sign-in failed/i.test(text) || (await button.count()) === 0) break;
        if (await page.locator("input[name=login]").count()) {
          await page.fill("input[name=login]", this.name);
          await page.fill("input[name=password]", "any");
        }
        const before = page.url() + text;
        await button.click().catch((error) => { if (!stopped) throw error; });
        await page.waitForLoadState("load").catch(() => {});
        for (let waits = 0; waits < 50 && !stopped; waits += 1) {
          const now = page.url() + (await page.locator("body").innerText().catch(() => ""));
          if (now !== before) break;
          await page.waitForTimeout(50);
        }
      }
      return { text: texts.at(-1) ?? "", texts, stopped };
    } finally {
      await context.close();
    }
  }
}
