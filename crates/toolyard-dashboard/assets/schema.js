// A form from a JSON schema. The form has its own values; it never writes into the raw editor, nor the other way round.

import { h } from "./dom.js";

let next = 0;

/** A form for an object schema: `{ element, read }`, where `read` gives `{ value, problems }`. */
export function form(schema, values = {}) {
  const properties = Object.entries(schema?.properties ?? {});
  const required = new Set(schema?.required ?? []);
  const fields = properties.map(([name, part]) => [name, field(name, resolve(part, schema), required.has(name), values[name])]);
  const element = h("div", fields.length ? fields.map(([, one]) => one.element) : h("p.dim", "This takes no arguments."));
  return {
    element,
    read() {
      const value = {}, problems = [];
      for (const [name, one] of fields) {
        const got = one.read();
        if (got.problem) problems.push(`${name}: ${got.problem}`);
        else if (got.value !== undefined) value[name] = got.value;
      }
      return { value, problems };
    },
  };
}

function resolve(part, root) {
  if (typeof part !== "object" || part === null) return {};
  const found = /^#\/(\$defs|definitions)\/(.+)$/.exec(part.$ref ?? "");
  if (found) return { ...root?.[found[1]]?.[found[2]], ...part, $ref: undefined };
  const union = part.anyOf ?? part.oneOf;
  const rest = union?.filter((one) => one?.type !== "null");
  if (rest?.length === 1) return { ...resolve(rest[0], root), ...part, anyOf: undefined, oneOf: undefined };
  return part;
}

function field(name, schema, isRequired, value) {
  const id = `field-${next++}`, hint = `${id}-hint`, wrong = `${id}-problem`;
  const types = [schema.type].flat().filter((type) => type && type !== "null");
  const type = types.length === 1 ? types[0] : undefined;
  const choices = schema.enum ?? schema.oneOf?.map((one) => one.const).filter((one) => one !== undefined);
  const common = { id, "aria-describedby": schema.description ? hint : null, "aria-required": isRequired ? "true" : null };
  const problem = h("span.problem", { id: wrong, role: "alert" });
  const start = value !== undefined ? value : schema.default;
  let control, read;
  if (choices?.length) {
    control = h("select", common, isRequired && start === undefined ? h("option", { value: "" }, "choose") : null, isRequired ? null : h("option", { value: "" }, "not set"), choices.map((one, at) => h("option", { value: String(at), selected: JSON.stringify(one) === JSON.stringify(start) }, String(one))));
    read = () => (control.value === "" ? { value: undefined } : { value: choices[Number(control.value)] });
  } else if (type === "boolean") {
    control = h("select", common, h("option", { value: "" }, "not set"), h("option", { value: "true", selected: start === true }, "true"), h("option", { value: "false", selected: start === false }, "false"));
    read = () => ({ value: control.value === "" ? undefined : control.value === "true" });
  } else if (type === "integer" || type === "number") {
    control = h("input", { ...common, inputmode: "decimal", value: start ?? "" });
    read = () => {
      if (control.value.trim() === "") return { value: undefined };
      const number = Number(control.value);
      if (!Number.isFinite(number) || (type === "integer" && !Number.isInteger(number))) return { problem: type === "integer" ? "must be a whole number" : "must be a number" };
      return { value: number };
    };
  } else if (type === "string") {
    control = schema.format === "textarea" || (schema.maxLength ?? 0) > 200 || /content|text|body|query|prompt|message/i.test(name) ? h("textarea", { ...common, rows: "3" }, start ?? "") : h("input", { ...common, value: start ?? "" });
    let isTouched = start !== undefined;
    control.addEventListener("input", () => { isTouched = true; });
    read = () => ({ value: control.value === "" && !(isTouched && isRequired) ? undefined : control.value });
  } else {
    control = h("textarea.code", { ...common, rows: "3", spellcheck: "false", placeholder: type === "array" ? "[ ]" : "{ }" }, start === undefined ? "" : JSON.stringify(start, null, 2));
    read = () => {
      if (control.value.trim() === "") return { value: undefined };
      try { return { value: JSON.parse(control.value) }; } catch (error) { return { problem: `is not JSON: ${error.message}` }; }
    };
  }
  const element = h("div.field", h("label", { for: id }, schema.title ?? name, isRequired ? h("span.dim", " (required)") : null), control, schema.description ? h("span.hint", { id: hint }, schema.description) : null, problem);
  return {
    element,
    read() {
      const got = read();
      if (!got.problem && got.value === undefined && isRequired) got.problem = "is required";
      problem.textContent = got.problem ?? "";
      if (got.problem) { control.setAttribute("aria-invalid", "true"); control.setAttribute("aria-errormessage", wrong); }
      else control.removeAttribute("aria-invalid");
      return got;
    },
  };
}
