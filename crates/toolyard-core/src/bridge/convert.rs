//! Pure conversions towards and from upstreams of another era.

use toolyard_model::{Greeting, Origin};
use toolyard_proto::error::code;
use toolyard_proto::modern::{self, RequestMeta, TASKS_EXTENSION};
use toolyard_proto::{CallError, Kind, Method, Raw, Revision};

const RELATED_TASK: &str = "io.modelcontextprotocol/related-task";

/// `params` with the envelope that a modern upstream requires, speaking for `origin`.
pub(super) fn stamped(origin: &Origin, params: &Raw) -> Raw {
    stamped_as(origin, capabilities_for_newer(&origin.capabilities), params)
}

/// The same, for a gateway that follows a task to its end because the client cannot.
pub(super) fn stamped_with_tasks(origin: &Origin, params: &Raw) -> Raw {
    let capabilities = capabilities_for_newer(&origin.capabilities);
    let extended = capabilities.with_path(&["extensions", TASKS_EXTENSION], &Raw::empty_object());
    stamped_as(origin, extended, params)
}

fn stamped_as(origin: &Origin, capabilities: Raw, params: &Raw) -> Raw {
    let meta = RequestMeta {
        revision: Revision::NEWEST,
        capabilities,
        client_info: origin.client_info.clone(),
        log_level: origin.log_level.get(),
    };
    modern::stamp_request(Some(params), &meta)
}

/// `params` without what an upstream of `revision` does not know yet.
pub(super) fn params_for_legacy(revision: Revision, method: &Method, params: Raw) -> Raw {
    match method.as_str() {
        "completion/complete" if revision < Revision::V2025_06_18 => params.without(&["context"]),
        "tools/call" if revision < Revision::V2025_11_25 => params.without(&["task"]),
        _ => params,
    }
}

/// The status of a task in the modern form.
pub(super) fn task_from_legacy(task: &Raw) -> Raw {
    let mut flat = task.without(&["ttl", "pollInterval"]).without_in("_meta", &[RELATED_TASK]);
    for (old, new) in [("ttl", "ttlMs"), ("pollInterval", "pollIntervalMs")] {
        if let Some(value) = task.member(old) {
            flat = flat.with(new, &value);
        }
    }
    flat
}

/// The status of a modern task in the form of 2025-11-25: a failed tool is a failed task, and its result is
/// fetched separately.
pub(super) fn task_for_legacy(task: &Raw) -> Raw {
    let flat = [
        "resultType",
        "ttlMs",
        "pollIntervalMs",
        "result",
        "error",
        "inputRequests",
        "requestState",
        "_meta",
    ];
    let mut core = task.without(&flat);
    for (new, old) in [("ttlMs", "ttl"), ("pollIntervalMs", "pollInterval")] {
        if let Some(value) = task.member(new) {
            core = core.with(old, &value);
        }
    }
    let has_failed = task.at(&["result", "isError"]).is_some_and(|flag| flag.as_bytes() == b"true");
    if has_failed { core.with("status", &Raw::from_serialize(&"failed")) } else { core }
}

/// The capability that a 2025-11-25 server with tasks declares.
pub(super) fn legacy_tasks_capability() -> Raw {
    serde_json::json!({ "list": {}, "cancel": {}, "requests": { "tools": { "call": {} } } }).into()
}

/// The capabilities of a legacy client in the modern form.
fn capabilities_for_newer(capabilities: &Raw) -> Raw {
    let capabilities = capabilities.without(&["tasks"]);
    if capabilities.member("roots").is_some() {
        return capabilities.with("roots", &Raw::empty_object());
    }
    capabilities
}

/// A result of a legacy upstream with the stamps that modern clients require.
pub(super) fn result_from_legacy(method: &Method, result: &Raw, server_info: Option<&Raw>) -> Raw {
    let stamped = modern::stamp_result(result, server_info);
    if *method == Method::RESOURCES_READ { modern::stamp_cache(&stamped, 0, "private") } else { stamped }
}

/// To modern clients "method not found" means that the method itself does not exist; legacy servers use it for unknown
/// tools and prompts, too.
pub(super) fn error_from_legacy(method: &Method, error: CallError) -> CallError {
    let names_an_entry = *method == Method::TOOLS_CALL || *method == Method::PROMPTS_GET;
    let (given, is_unknown) = (error.code(), names_an_entry && error.code() == code::METHOD_NOT_FOUND);
    match &error.kind {
        Kind::Reported(raw) if given == code::RESOURCE_NOT_FOUND || is_unknown => {
            let raw = raw.with("code", &Raw::from_serialize(&code::INVALID_PARAMS));
            error.with_kind(Kind::Reported(raw))
        }
        _ => error,
    }
}

/// A modern upstream's own greeting, with the versions that this gateway speaks.
pub(super) fn with_our_versions(whole: &Raw) -> Raw {
    whole.with("supportedVersions", &our_versions())
}

pub(super) fn our_versions() -> Raw {
    let versions: Vec<&str> = Revision::ALL.iter().rev().map(|revision| revision.as_str()).collect();
    Raw::from_serialize(&versions)
}

/// An `initialize` result as the answer to `server/discover`.
pub(super) fn discover_from_legacy(greeting: &Greeting) -> Raw {
    let mut out = Raw::empty_object().with("supportedVersions", &our_versions());
    let mut capabilities = greeting.capabilities.without(&["tasks"]);
    if greeting.capabilities.at(&["tasks", "requests", "tools", "call"]).is_some() {
        capabilities = capabilities.with_path(&["extensions", TASKS_EXTENSION], &Raw::empty_object());
    }
    out = out.with("capabilities", &capabilities);
    if let Some(instructions) = &greeting.instructions {
        out = out.with("instructions", instructions);
    }
    modern::stamp_cache(&modern::stamp_result(&out, greeting.server_info.as_ref()), 0, "private")
}
