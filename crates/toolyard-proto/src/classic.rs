//! Down-conversion: what a modern answer becomes for a client of an older revision.

use crate::era::Revision;
use crate::error::code;
use crate::modern::{SERVER_INFO, SUBSCRIPTION_ID};
use crate::{Method, Raw};

/// What `initialize` answers, from what the server said of itself in `form`. Said in the old form already,
/// only the version is ours; otherwise the pieces move to their old places.
pub fn initialize_result(to: Revision, said: &Raw, form: Revision) -> Raw {
    let version = Raw::from_serialize(&to.as_str());
    if !form.is_modern() {
        return said.with("protocolVersion", &version);
    }
    let capabilities = said.member("capabilities").unwrap_or_else(Raw::empty_object).without(&["extensions"]);
    let nameless = || serde_json::json!({ "name": "unknown", "version": "0" }).into();
    let server_info = said.at(&["_meta", SERVER_INFO]).unwrap_or_else(nameless);
    let out = Raw::empty_object()
        .with("protocolVersion", &version)
        .with("capabilities", &capabilities)
        .with("serverInfo", &server_info);
    match said.member("instructions") {
        Some(instructions) => out.with("instructions", &instructions),
        None => out,
    }
}

/// A result in the form that a client of `to` knows. Bytes that need no change are not touched.
pub fn result_for(to: Revision, method: &Method, result: &Raw) -> Raw {
    let out = result.without(&["resultType", "ttlMs", "cacheScope"]).without_in("_meta", &[SERVER_INFO]);
    if *method == Method::TOOLS_CALL { tool_result_for(to, &out) } else { out }
}

/// Before the newest revision, structured content is an object or nothing.
fn tool_result_for(to: Revision, result: &Raw) -> Raw {
    match result.member("structuredContent") {
        Some(content) if to < Revision::V2025_06_18 || !content.is_object() => {
            result.without(&["structuredContent"])
        }
        _ => result.clone(),
    }
}

/// An error object in the form that a client of an older revision knows.
pub fn error_for(method: &Method, error: &Raw) -> Raw {
    let number: i64 = error.member("code").and_then(|number| number.read().ok()).unwrap_or_default();
    let new = match i32::try_from(number).unwrap_or_default() {
        code::INVALID_PARAMS if *method == Method::RESOURCES_READ => code::RESOURCE_NOT_FOUND,
        code::HEADER_MISMATCH | code::MISSING_CAPABILITY | code::UNSUPPORTED_VERSION => code::INTERNAL,
        _ => return error.clone(),
    };
    error.with("code", &Raw::from_serialize(&new))
}

/// One entry of `tools/list` in the form that a client of `to` knows.
pub fn tool_for(to: Revision, tool: &Raw) -> Raw {
    if to < Revision::V2025_06_18 {
        return tool.without(&["outputSchema", "title"]);
    }
    let object_output =
        tool.at(&["outputSchema", "type"]).is_none_or(|kind| kind.as_bytes() == b"\"object\"");
    if object_output { tool.clone() } else { tool.without(&["outputSchema"]) }
}

/// A notification's parameters without what only modern listeners know.
pub fn notification_params(params: &Raw) -> Raw {
    params.without_in("_meta", &[SUBSCRIPTION_ID])
}
