//! The catalog as clients see it: the tools of a view, and everything that one upstream defines.

use http::StatusCode;
use serde_json::{Value, json};
use toolyard_model::{ClientKey, ControlRequest, ControlResponse, Origin, View};
use toolyard_policy::rules::Kind;
use toolyard_proto::{Raw, Revision};

use super::{Answered, number, unknown};
use crate::Gateway;
use crate::catalog::{Entry, ListKind, Visibility};
use crate::report::at;
use crate::upstream::Upstream;

/// How many entries one answer lists.
const MOST: usize = 500;

impl Gateway {
    /// The tools of a view, in order, without their schemas.
    pub(super) fn catalog(&self, request: &ControlRequest) -> Answered {
        let name = request.parameter("view").unwrap_or_default();
        let path = name.strip_prefix("/mcp").unwrap_or(&name).trim_start_matches('/');
        let snapshot = self.shared().catalog.snapshot();
        let view = View::parse(path).and_then(|view| snapshot.view(&view).cloned());
        let view = view.ok_or_else(|| {
            let message = format!("there is no view /mcp/{path}");
            ControlResponse::error(StatusCode::NOT_FOUND, "unknown_view", &message)
        })?;
        let search = request.parameter("search").unwrap_or_default().to_lowercase();
        let is_found = |entry: &&std::sync::Arc<Entry>| {
            search.is_empty() || entry.canonical.to_lowercase().contains(&search)
        };
        let is_namespaced = view.is_namespaced();
        let seen = self.seen_by(request);
        let shown = view.listed_tools().filter(|entry| !seen.hides(entry));
        let found: Vec<_> = shown.filter(is_found).collect();
        let offset = number(request, "offset").unwrap_or(0);
        let limit = number(request, "limit").unwrap_or(MOST).min(MOST);
        let tools = found.iter().skip(offset).take(limit).map(|entry| summary(entry, is_namespaced));
        let views: Vec<String> = self.views_json();
        Ok(ControlResponse::json(
            &json!({ "total": found.len(), "offset": offset, "tools": tools.collect::<Vec<_>>(), "views": views }),
        ))
    }

    /// The entries that the rules show a client; an operator sees everything.
    fn seen_by(&self, request: &ControlRequest) -> Visibility {
        if request.is_operator {
            return Visibility::default();
        }
        let (principal, client) = (request.principal.clone(), ClientKey::Gateway);
        let origin = Origin::new(View::Everything, principal, client, Revision::NEWEST);
        self.rules().steps.visibility(&origin)
    }

    fn views_json(&self) -> Vec<String> {
        let rules = self.rules();
        let profiles = rules.profiles.iter().map(|profile| format!("/mcp/p/{}", profile.name));
        let alone = rules.upstreams.iter().map(|upstream| format!("/mcp/{}", upstream.id()));
        ["/mcp", "/mcp/lean", "/mcp/hub"]
            .map(str::to_owned)
            .into_iter()
            .chain(profiles)
            .chain(alone)
            .collect()
    }

    /// One list of an upstream as it defined it.
    pub(super) fn definitions(&self, request: &ControlRequest, id: &str) -> Answered {
        let upstream = self.find(id).ok_or_else(|| unknown(id))?;
        let wanted = request.parameter("list").unwrap_or_else(|| "tools".into());
        let kind = ListKind::ALL.into_iter().find(|kind| kind.key() == wanted).ok_or_else(|| {
            let message = "`list` is one of tools, resources, resourceTemplates and prompts";
            ControlResponse::error(StatusCode::BAD_REQUEST, "bad_parameter", message)
        })?;
        let definitions = upstream.definitions();
        let all: &[Raw] = definitions.as_deref().map_or(&[], |definitions| definitions.list(kind));
        let search = request.parameter("search").unwrap_or_default().to_lowercase();
        let name = |raw: &&Raw| {
            let name = raw.member("name").and_then(|name| name.as_string()).unwrap_or_default();
            search.is_empty() || name.to_lowercase().contains(&search)
        };
        let seen = self.seen_by(request);
        let found: Vec<&Raw> =
            all.iter().filter(name).filter(|raw| !is_hidden(&seen, kind, &upstream, raw)).collect();
        let offset = number(request, "offset").unwrap_or(0);
        let limit = number(request, "limit").unwrap_or(MOST).min(MOST);
        let entries: Vec<&&Raw> = found.iter().skip(offset).take(limit).collect();
        let json = json!({ "total": found.len(), "offset": offset, "list": wanted, "entries": entries });
        Ok(ControlResponse::json(&json))
    }

    /// Samples, definition changes and stderr output of an upstream.
    pub(super) fn changes(&self, id: &str) -> Answered {
        let upstream = self.find(id).ok_or_else(|| unknown(id))?;
        Ok(ControlResponse::json(&json!({ "changes": upstream.changes.to_json() })))
    }

    pub(super) fn samples(&self, id: &str) -> Answered {
        let upstream = self.find(id).ok_or_else(|| unknown(id))?;
        Ok(ControlResponse::json(&upstream.samples.to_json()))
    }

    pub(super) fn stderr(&self, id: &str) -> Answered {
        let upstream = self.find(id).ok_or_else(|| unknown(id))?;
        let lines = upstream.stderr();
        let lines = lines.iter().map(|line| json!({ "at": at(line.at), "text": line.text }));
        Ok(ControlResponse::json(&json!({ "lines": lines.collect::<Vec<_>>() })))
    }
}

/// Whether a definition of an upstream is hidden from a client.
fn is_hidden(seen: &Visibility, kind: ListKind, upstream: &Upstream, raw: &Raw) -> bool {
    let name = || raw.member("name").and_then(|name| name.as_string()).unwrap_or_default();
    match kind {
        ListKind::Tools => seen.hides_tool(upstream, &name(), raw),
        ListKind::Prompts => seen.hides_named(Kind::Prompt, upstream, &name()),
        ListKind::Resources | ListKind::Templates => seen.hides_resource(upstream, raw),
    }
}

fn summary(entry: &Entry, is_namespaced: bool) -> Value {
    let text = |key: &str| entry.own.member(key).and_then(|text| text.as_string());
    let description = text("description").map(|text| text.chars().take(300).collect::<String>());
    json!({
        "id": entry.canonical,
        "name": if is_namespaced { &entry.shown } else { &entry.own_name },
        "upstream": entry.upstream.id().as_str(),
        "title": text("title"),
        "description": description,
        "annotations": entry.own.member("annotations"),
    })
}
