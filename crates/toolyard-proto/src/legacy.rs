//! Down-conversion of modern answers for legacy clients.

use std::ops::Range;

use crate::era::Revision;
use crate::error::code;
use crate::modern::{SERVER_INFO, SUBSCRIPTION_ID, UI_EXTENSION};
use crate::splice::{elements, find, members, replace_all};
use crate::{Method, Raw};

/// The answer to `initialize`, made from the server's `introduction`, which is in `form`. If that is in the legacy form
/// already, only the version is replaced; otherwise the pieces move to their legacy places.
pub fn initialize_result(to: Revision, introduction: &Raw, form: Revision) -> Raw {
    let version = Raw::from_serialize(&to.as_str());
    if !form.is_modern() {
        return introduction.with("protocolVersion", &version);
    }
    let capabilities = introduction.member("capabilities").unwrap_or_else(Raw::empty_object);
    let capabilities = match capabilities.at(&["extensions", UI_EXTENSION]) {
        Some(ui) => capabilities.with("extensions", &Raw::empty_object().with(UI_EXTENSION, &ui)),
        None => capabilities.without(&["extensions"]),
    };
    let nameless = || serde_json::json!({ "name": "unknown", "version": "0" }).into();
    let server_info = introduction.at(&["_meta", SERVER_INFO]).unwrap_or_else(nameless);
    let out = Raw::empty_object()
        .with("protocolVersion", &version)
        .with("capabilities", &capabilities)
        .with("serverInfo", &server_info);
    let out = match introduction.member("instructions") {
        Some(instructions) => out.with("instructions", &instructions),
        None => out,
    };
    match introduction.member("_meta").map(|meta| meta.without(&[SERVER_INFO])) {
        Some(meta) if members(meta.as_bytes()).next().is_some() => out.with("_meta", &meta),
        _ => out,
    }
}

/// A result in the form that a client of `to` knows. Bytes that need no change are not touched.
pub fn result_for(to: Revision, method: &Method, result: &Raw) -> Raw {
    let out = result.without(&["resultType", "ttlMs", "cacheScope"]).without_in("_meta", &[SERVER_INFO]);
    match method.as_str() {
        "tools/call" => tool_result_for(to, &out),
        "prompts/get" => each(&out, "messages", |message| match message.member("content") {
            Some(content) => message.with("content", &content_for(to, &content)),
            None => message.clone(),
        }),
        "tools/list" => each(&out, "tools", |tool| tool_for(to, tool)),
        "prompts/list" => each(&out, "prompts", |prompt| entry_for(to, prompt)),
        "resources/list" => each(&out, "resources", |resource| entry_for(to, resource)),
        "resources/templates/list" => each(&out, "resourceTemplates", |template| entry_for(to, template)),
        _ => out,
    }
}

/// Before the newest revision, structured content is an object or absent. Servers send it as text, too; if
/// one does not, that is done here.
fn tool_result_for(to: Revision, result: &Raw) -> Raw {
    let out = match result.member("structuredContent") {
        Some(structured) if to < Revision::V2025_06_18 || !structured.is_object() => {
            let out = result.without(&["structuredContent"]);
            let has_content =
                out.member("content").is_some_and(|content| elements(content.as_bytes()).next().is_some());
            if has_content {
                out
            } else {
                out.with("content", &Raw::array(&[text_block(structured.as_str())]))
            }
        }
        _ => result.clone(),
    };
    each(&out, "content", |content| content_for(to, content))
}

fn text_block(text: &str) -> Raw {
    serde_json::json!({ "type": "text", "text": text }).into()
}

/// A piece of content. What the client's revision does not know becomes text that describes it.
fn content_for(to: Revision, content: &Raw) -> Raw {
    let text = |key: &str| content.member(key).and_then(|value| value.as_string()).unwrap_or_default();
    let instead = match content.member("type").as_ref().map(Raw::as_bytes) {
        Some(b"\"audio\"") if to < Revision::V2025_03_26 => {
            format!("[audio, {}: this client cannot take it]", text("mimeType"))
        }
        Some(b"\"resource_link\"") if to < Revision::V2025_06_18 => {
            format!("{}: {}", text("name"), text("uri"))
        }
        _ => return content.clone(),
    };
    text_block(&instead)
}

/// One entry of a list other than of tools. Titles came with 2025-06-18.
pub fn entry_for(to: Revision, entry: &Raw) -> Raw {
    if to < Revision::V2025_06_18 { entry.without(&["title"]) } else { entry.clone() }
}

/// `object` with each element of the array `key` changed; the same bytes if none is.
fn each(object: &Raw, key: &str, change: impl Fn(&Raw) -> Raw) -> Raw {
    let Some(range) = find(object.as_bytes(), key) else { return object.clone() };
    let array = object.slice(range.clone());
    let changes: Vec<(Range<usize>, Raw)> = elements(array.as_bytes())
        .filter_map(|at| {
            let old = array.slice(at.clone());
            let new = change(&old);
            (new != old).then_some((at, new))
        })
        .collect();
    if changes.is_empty() {
        return object.clone();
    }
    let edits: Vec<(Range<usize>, &[u8])> =
        changes.iter().map(|(at, new)| (at.clone(), new.as_bytes())).collect();
    object.replaced(range, &replace_all(array.as_bytes(), &edits))
}

/// An error object in `form`, in the form that a legacy client knows. The error of a legacy upstream is passed on
/// unchanged.
pub fn error_for(form: Revision, method: &Method, error: &Raw) -> Raw {
    if !form.is_modern() {
        return error.clone();
    }
    let number: i64 = error.member("code").and_then(|number| number.read().ok()).unwrap_or_default();
    let new = match i32::try_from(number).unwrap_or_default() {
        code::INVALID_PARAMS if *method == Method::RESOURCES_READ => code::RESOURCE_NOT_FOUND,
        code::HEADER_MISMATCH | code::MISSING_CAPABILITY | code::UNSUPPORTED_VERSION => code::INTERNAL,
        _ => return error.clone(),
    };
    error.with("code", &Raw::from_serialize(&new))
}

/// One entry of `tools/list` in the form that a client of `to` knows. Annotations came with 2025-03-26, titles
/// and output schemas with 2025-06-18, output schemas that are not of an object with 2026-07-28. Clients of that
/// revision insist on a type at the root of the input schema, which legacy servers may leave out.
pub fn tool_for(to: Revision, tool: &Raw) -> Raw {
    let is_object =
        |schema: &str| tool.at(&[schema, "type"]).is_some_and(|kind| kind.as_bytes() == b"\"object\"");
    if to.is_modern() {
        let untyped = tool.member("inputSchema").is_some_and(|schema| schema.is_object())
            && tool.at(&["inputSchema", "type"]).is_none();
        let object = Raw::from_serialize(&"object");
        return if untyped { tool.with_path(&["inputSchema", "type"], &object) } else { tool.clone() };
    }
    match to {
        Revision::V2024_11_05 => tool.without(&["outputSchema", "title", "annotations"]),
        Revision::V2025_03_26 => tool.without(&["outputSchema", "title"]),
        _ if is_object("outputSchema") => tool.clone(),
        _ => tool.without(&["outputSchema"]),
    }
}

/// The parameters of a question as a client of `to` knows them. Before 2025-11-25 there was only one mode of
/// elicitation, without a name; in that revision a page to visit has an id, which `unique` makes where the
/// server has none.
pub fn ask_for(to: Revision, method: &Method, params: &Raw, unique: u64) -> Raw {
    if *method != Method::ELICIT {
        return params.clone();
    }
    let mode = params.member("mode");
    match mode.as_ref().map(Raw::as_bytes) {
        Some(b"\"form\"") if to < Revision::V2025_11_25 => params.without(&["mode"]),
        Some(b"\"url\"") if params.member("elicitationId").is_none() => {
            params.with("elicitationId", &Raw::from_serialize(&format!("yard-{unique}")))
        }
        _ => params.clone(),
    }
}

/// A notification's parameters without what only modern listeners know.
pub fn notification_params(params: &Raw) -> Raw {
    params.without_in("_meta", &[SUBSCRIPTION_ID])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(text: &str) -> Raw {
        Raw::parse(text.to_owned()).unwrap()
    }

    fn check(to: Revision, method: &str, result: &str, expected: &str) {
        let got = result_for(to, &Method::new(method), &raw(result));
        assert_eq!(got.as_str(), expected, "{to} {method}");
    }

    #[test]
    fn content_that_a_legacy_client_knows_is_unchanged() {
        let text = r#"{ "content":[ {"type":"text", "text":"x"} ,{"type":"audio","data":""} ],"structuredContent": {"a" : 1}, "x":1.50}"#;
        check(Revision::V2025_11_25, "tools/call", text, text);
        check(Revision::V2025_11_25, "ping", "{}", "{}");
    }

    #[test]
    fn only_errors_in_the_modern_form_are_converted() {
        let check = |form: Revision, method: &str, code: i32, expected: i32| {
            let error = raw(&format!(r#"{{"code":{code},"message":"no"}}"#));
            let got = error_for(form, &Method::new(method), &error);
            assert_eq!(got.as_str(), format!(r#"{{"code":{expected},"message":"no"}}"#), "{form} {method}");
        };
        check(Revision::NEWEST, "resources/read", code::INVALID_PARAMS, code::RESOURCE_NOT_FOUND);
        check(Revision::NEWEST, "tools/call", code::INVALID_PARAMS, code::INVALID_PARAMS);
        check(Revision::NEWEST, "tools/call", code::MISSING_CAPABILITY, code::INTERNAL);
        check(Revision::V2025_11_25, "resources/read", code::INVALID_PARAMS, code::INVALID_PARAMS);
    }

    #[test]
    fn the_stamps_of_the_modern_form_go() {
        check(
            Revision::V2025_11_25,
            "tools/list",
            r#"{"resultType":"complete","tools":[],"ttlMs":1,"cacheScope":"public","_meta":{"io.modelcontextprotocol/serverInfo":{},"a":1}}"#,
            r#"{"tools":[],"_meta":{"a":1}}"#,
        );
    }

    #[test]
    fn content_that_a_legacy_client_does_not_know_becomes_text_or_is_removed() {
        use Revision::{V2024_11_05, V2025_03_26, V2025_06_18, V2025_11_25};
        let link =
            r#"{"content":[{"type":"resource_link","name":"n","uri":"a:b"}, 1],"structuredContent":{}}"#;
        let audio = r#"{"messages":[{"role":"user","content":{"type":"audio","mimeType":"audio/wav"}}]}"#;
        let prompts = r#"{"prompts":[{"name":"a","title":"b"}]}"#;
        let tool =
            r#"{"tools":[{"name":"a","title":"t","annotations":{},"outputSchema":{"type":"object"}}]}"#;
        let listed = r#"{"tools":[{"name":"a","outputSchema":{"type":"array"}},{"name":"b","outputSchema":{"anyOf":[]}}]}"#;
        for (to, method, result, expected) in [
            (V2025_06_18, "tools/call", link, link),
            (V2025_03_26, "tools/call", link, r#"{"content":[{"type":"text","text":"n: a:b"}, 1]}"#),
            (V2025_03_26, "prompts/get", audio, audio),
            (
                V2024_11_05,
                "prompts/get",
                audio,
                r#"{"messages":[{"role":"user","content":{"type":"text","text":"[audio, audio/wav: this client cannot take it]"}}]}"#,
            ),
            (V2025_11_25, "tools/call", r#"{"content":[1],"structuredContent":[1]}"#, r#"{"content":[1]}"#),
            (
                V2025_11_25,
                "tools/call",
                r#"{"content":[],"structuredContent":[1]}"#,
                r#"{"content":[{"type":"text","text":"[1]"}]}"#,
            ),
            (
                V2025_03_26,
                "tools/call",
                r#"{"structuredContent":{"a":1}}"#,
                r#"{"content":[{"type":"text","text":"{\"a\":1}"}]}"#,
            ),
            (V2025_06_18, "prompts/list", prompts, prompts),
            (V2025_03_26, "prompts/list", prompts, r#"{"prompts":[{"name":"a"}]}"#),
            (V2025_06_18, "tools/list", tool, tool),
            (V2025_03_26, "tools/list", tool, r#"{"tools":[{"name":"a","annotations":{}}]}"#),
            (V2024_11_05, "tools/list", tool, r#"{"tools":[{"name":"a"}]}"#),
            (V2025_11_25, "tools/list", listed, r#"{"tools":[{"name":"a"},{"name":"b"}]}"#),
        ] {
            check(to, method, result, expected);
        }
    }

    #[test]
    fn a_modern_client_gets_every_output_schema_and_a_type_for_every_input() {
        let check = |tool: &str, expected: &str| {
            assert_eq!(tool_for(Revision::NEWEST, &raw(tool)).as_str(), expected);
        };
        let any = r#"{"inputSchema":{"type":"object"},"outputSchema":{"type":"array"},"title":"t"}"#;
        check(any, any);
        check(r#"{"inputSchema":{}}"#, r#"{"inputSchema":{"type":"object"}}"#);
        check(r#"{"name":"none"}"#, r#"{"name":"none"}"#);
    }

    #[test]
    fn a_question_is_put_in_the_words_of_the_clients_revision() {
        use Revision::{V2025_06_18, V2025_11_25};
        let check = |to, method, params: &str, expected: &str| {
            assert_eq!(ask_for(to, &method, &raw(params), 7).as_str(), expected, "{to}");
        };
        let form = r#"{"mode":"form","message":"?"}"#;
        check(V2025_11_25, Method::ELICIT, form, form);
        check(V2025_06_18, Method::ELICIT, form, r#"{"message":"?"}"#);
        check(V2025_11_25, Method::ELICIT, r#"{"mode":"url"}"#, r#"{"mode":"url","elicitationId":"yard-7"}"#);
        let known = r#"{"mode":"url","elicitationId":"a"}"#;
        check(V2025_11_25, Method::ELICIT, known, known);
        check(V2025_06_18, Method::SAMPLE, form, form);
    }

    #[test]
    fn an_introduction_moves_to_its_old_places() {
        let introduction = r#"{"supportedVersions":[],"capabilities":{"tools":{},"extensions":{"a/b":{}}},"instructions":"i","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"n","version":"1"}}}"#;
        let got = initialize_result(Revision::V2025_06_18, &raw(introduction), Revision::NEWEST);
        assert_eq!(
            got.as_str(),
            r#"{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"n","version":"1"},"instructions":"i"}"#
        );
        let introduction = r#"{"protocolVersion":"2025-11-25","capabilities":{"extensions":{}},"x":1}"#;
        let got = initialize_result(Revision::V2025_06_18, &raw(introduction), Revision::V2025_11_25);
        assert_eq!(got.as_str(), introduction.replace("2025-11-25", "2025-06-18"));
    }
}
