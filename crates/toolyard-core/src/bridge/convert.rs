//! Pure conversions towards and from upstreams of another era.

use toolyard_proto::error::code;
use toolyard_proto::modern::{self, RequestMeta};
use toolyard_proto::{CallError, Kind, Method, Raw, Revision};
use toolyard_transport::{Greeting, Origin};

/// `params` with the envelope that a modern upstream requires, speaking for `origin`.
pub(super) fn stamped(origin: &Origin, params: &Raw) -> Raw {
    let meta = RequestMeta {
        revision: Revision::NEWEST,
        capabilities: capabilities_for_newer(&origin.capabilities),
        client_info: origin.client_info.clone(),
        log_level: origin.log_level.get(),
    };
    modern::stamp_request(Some(params), &meta)
}

/// What a client of an older revision can do, in today's words.
fn capabilities_for_newer(capabilities: &Raw) -> Raw {
    let capabilities = capabilities.without(&["tasks"]);
    if capabilities.member("roots").is_some() {
        return capabilities.with("roots", &Raw::empty_object());
    }
    capabilities
}

/// A result of an older upstream with the stamps that today's clients require.
pub(super) fn result_from_older(method: &Method, result: &Raw, server_info: Option<&Raw>) -> Raw {
    let stamped = modern::stamp_result(result, server_info);
    if *method == Method::RESOURCES_READ { modern::stamp_cache(&stamped, 0, "private") } else { stamped }
}

/// To today's clients "method not found" says that the method itself does not exist; older servers say it of
/// unknown tools and prompts, too.
pub(super) fn error_from_older(method: &Method, error: CallError) -> CallError {
    let names_an_entry = *method == Method::TOOLS_CALL || *method == Method::PROMPTS_GET;
    let (given, is_unknown) = (error.code(), names_an_entry && error.code() == code::METHOD_NOT_FOUND);
    match &error.kind {
        Kind::Reported(raw) if given == code::RESOURCE_NOT_FOUND || is_unknown => {
            let raw = raw.with("code", &Raw::from_serialize(&code::INVALID_PARAMS));
            CallError { kind: Kind::Reported(raw), ..error }
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
pub(super) fn discover_from_older(greeting: &Greeting) -> Raw {
    let mut out = Raw::empty_object().with("supportedVersions", &our_versions());
    out = out.with("capabilities", &greeting.capabilities.without(&["tasks"]));
    if let Some(instructions) = &greeting.instructions {
        out = out.with("instructions", instructions);
    }
    modern::stamp_cache(&modern::stamp_result(&out, greeting.server_info.as_ref()), 0, "private")
}
