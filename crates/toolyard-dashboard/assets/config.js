// The config files in force, with their problems, and a form that adds a server after showing the difference.

import { get, offers, post } from "./api.js";
import { h, replace, toast } from "./dom.js";
import { lineDiff } from "./json.js";

export default function config() {
  const files = h("div.stack", h("p.dim", "Loading…"));
  const element = h("div.stack", h("div.head", h("h1", "Config"), h("span.grow"), h("button", { type: "button", onclick: async () => {
    try { await post("/reload"); toast("The config is read again"); } catch (error) { toast(error.message); }
  } }, "Reload"), h("p", "The files are the source of truth: edit them in an editor, or add a server here.")), files, add(load));
  async function load() {
    try {
      if (!(await offers("/config"))) throw new Error("this gateway does not show its config");
      const { files: all, problems } = await get("/config");
      replace(files,
        problems.length ? h("div.note.warn", h("ul", problems.map((problem) => h("li", problem)))) : h("p.note", "The config is valid."),
        all.length ? all.map((file) => h("section.panel", { "aria-label": file.path }, h("div.panel-head", h("h2.wrap", file.path), h("span.badge.plain", file.role)), h("div.payload", { tabindex: "0", role: "region", "aria-label": `Text of ${file.path}` }, h("pre", file.text)))) : h("div.panel", h("div.empty", h("b", "There is no config file yet"), "Add a server below to make one.")));
    } catch (error) {
      replace(files, h("div.panel", h("div.empty", h("b", error.status === 403 ? "The config is for operators" : "The config cannot be read"), error.status === 403 ? "Run `toolyard ui` in a terminal to sign in." : error.message)));
    }
  }
  load();
  return { title: "Config", element };
}

function add(done) {
  const name = h("input", { id: "add-name", autocomplete: "off", spellcheck: "false", placeholder: "files" });
  const target = h("input", { id: "add-target", autocomplete: "off", spellcheck: "false", placeholder: "npx -y @modelcontextprotocol/server-filesystem /srv, or https://…" });
  const variables = h("textarea.code", { id: "add-env", rows: "2", spellcheck: "false", placeholder: "TOKEN=${TOKEN}" });
  const out = h("div");
  const body = () => ({ name: name.value.trim(), target: target.value.trim(), variables: variables.value.split("\n").map((line) => line.trim()).filter(Boolean) });
  async function preview() {
    try {
      const found = await post("/config/servers/preview", body());
      const save = h("button.main", { type: "button", onclick: async () => {
        try { const saved = await post("/config/servers", body()); toast(`${saved.id} was added`); replace(out); name.value = target.value = variables.value = ""; done(); } catch (error) { toast(error.message); }
      } }, `Add to ${found.file}`);
      replace(out, h("div.stack", h("h3", "What changes"), lineDiff(found.before, found.after), found.remarks.length ? h("ul", found.remarks.map((remark) => h("li", remark))) : null, h("div.row", save, h("button", { type: "button", onclick: () => replace(out) }, "Discard"))));
      save.focus();
    } catch (error) { replace(out, h("p.problem", { role: "alert" }, error.message)); }
  }
  return h("section.panel", { "aria-label": "Add a server" }, h("h2", "Add a server"), h("form.panel-body", { onsubmit: (event) => { event.preventDefault(); preview(); } },
    h("div.field", h("label", { for: name.id }, "Name"), name), h("div.field", h("label", { for: target.id }, "Command or URL"), target),
    h("div.field", h("label", { for: variables.id }, "Variables, or headers of a URL, one a line"), variables, h("span.hint", "${NAME} is expanded when the gateway starts, so that no secret gets into the file.")),
    h("div.row", h("button", { type: "submit" }, "Show the change")), out));
}
