//! The protocol's extension for skills in views of many upstreams: one list of the skills of all of them, each under
//! `skill://UPSTREAM/…`. Nothing is kept: upstreams are asked when a client lists, as that client.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use serde_json::json;
use toolyard_model::{Answer, AnswerBody, Origin};
use toolyard_proto::modern::{self, SKILLS_EXTENSION};
use toolyard_proto::splice::elements;
use toolyard_proto::uri::{ResultKind, map_result};
use toolyard_proto::{CallError, Raw};

use crate::catalog::ViewCatalog;
use crate::dispatch::RoutedCall;
use crate::greet::server_info;
use crate::pipeline::{Next, StepRules};
use crate::upstream::Upstream;

/// How long an upstream may take to list its skills.
const LONGEST: Duration = Duration::from_secs(10);
/// How many pages of one upstream are read.
const MOST_PAGES: usize = 20;
/// How many skills one upstream may list.
const MOST_SKILLS: usize = 2_000;
/// The key in the `_meta` of a skill for the URIs of other skills with the same name.
const SAME_NAME: &str = "dev.toolyard/sameName";

/// Whether an upstream declares the extension.
pub(crate) fn serves(upstream: &Upstream) -> bool {
    settings_of(upstream).is_some()
}

pub(crate) fn upstreams(view: &ViewCatalog) -> Vec<Arc<Upstream>> {
    view.upstreams().filter(|upstream| serves(upstream)).cloned().collect()
}

fn settings_of(upstream: &Upstream) -> Option<Raw> {
    upstream.definitions()?.greeting.capabilities.at(&["extensions", SKILLS_EXTENSION])
}

/// The declaration of a view: directories can be read only if every upstream with skills has them.
pub(crate) fn settings(view: &ViewCatalog) -> Raw {
    let has_directories =
        |settings: Raw| settings.member("directoryRead").is_some_and(|flag| flag.as_bytes() == b"true");
    if view.upstreams().filter_map(|upstream| settings_of(upstream)).all(has_directories) {
        return json!({ "directoryRead": true }).into();
    }
    Raw::empty_object()
}

/// Asks all upstreams at the same time. One that does not answer is left out.
pub(crate) async fn list(steps: Arc<StepRules>, origin: Arc<Origin>, calls: Vec<RoutedCall>) -> Answer {
    let listed = join_all(calls.into_iter().map(async |routed| {
        let upstream = routed.call.upstream.clone();
        let skills = match tokio::time::timeout(LONGEST, of_upstream(routed)).await {
            Ok(Ok(skills)) => skills,
            Ok(Err(error)) => return missing(&upstream, &error.to_string()),
            Err(_) => return missing(&upstream, &format!("no answer within {} s", LONGEST.as_secs())),
        };
        let is_seen = |skill: &Raw| {
            let uri = skill.member("uri").and_then(|uri| uri.as_string());
            uri.is_some_and(|uri| !steps.hides_resource(&origin, &upstream, &uri))
        };
        skills.into_iter().filter(is_seen).map(|skill| shown(&upstream, skill)).collect()
    }))
    .await;
    let skills = with_collisions(listed.into_iter().flatten().collect());
    let result = Raw::empty_object().with("skills", &Raw::array(&skills));
    let result = modern::stamp_cache(&modern::stamp_result(&result, Some(&server_info())), 0, "private");
    Ok(AnswerBody::ours(result))
}

fn missing(upstream: &Upstream, error: &str) -> Vec<Raw> {
    tracing::warn!(upstream = %upstream.id(), error, "could not list the skills of an upstream");
    Vec::new()
}

/// All pages of one upstream.
async fn of_upstream(routed: RoutedCall) -> Result<Vec<Raw>, CallError> {
    let RoutedCall { call, chain } = routed;
    let (mut skills, mut cursor) = (Vec::new(), None::<Raw>);
    for _ in 0..MOST_PAGES {
        let mut call = call.clone();
        (call.relay, call.needs_whole) = (false, true);
        if let Some(cursor) = &cursor {
            call.params = call.params.with("cursor", cursor).into();
        }
        let AnswerBody::Whole(page, _) = Next::start(chain.clone(), call).await? else {
            return Err(CallError::internal("a whole answer was asked for"));
        };
        if let Some(list) = page.member("skills") {
            skills.extend(elements(list.as_bytes()).map(|range| list.slice(range)));
        }
        let next = page.member("nextCursor").filter(|next| !next.is_null());
        if next.is_none() || next == cursor || skills.len() >= MOST_SKILLS {
            break;
        }
        cursor = next;
    }
    skills.truncate(MOST_SKILLS);
    Ok(skills)
}

fn shown(upstream: &Upstream, skill: Raw) -> Raw {
    map_result(ResultKind::SkillEntry, upstream.id(), skill.as_bytes()).map_or(skill, Raw::assembled)
}

/// Notes with each skill which others have its name.
fn with_collisions(skills: Vec<Raw>) -> Vec<Raw> {
    let name = |skill: &Raw| skill.at(&["frontmatter", "name"]).and_then(|name| name.as_string());
    let uri = |skill: &Raw| skill.member("uri").and_then(|uri| uri.as_string()).unwrap_or_default();
    let mut by_name: HashMap<String, Vec<String>> = HashMap::new();
    for skill in &skills {
        by_name.entry(name(skill).unwrap_or_default()).or_default().push(uri(skill));
    }
    let noted = |skill: Raw| {
        let own = uri(&skill);
        let same = by_name.get(&name(&skill).unwrap_or_default()).map(Vec::as_slice).unwrap_or_default();
        let others: Vec<&String> = same.iter().filter(|other| **other != own).collect();
        if others.is_empty() {
            return skill;
        }
        skill.with_path(&["_meta", SAME_NAME], &Raw::from_serialize(&others))
    };
    skills.into_iter().map(noted).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn skills_of_one_name_name_each_other() {
        let skill = |uri: &str, name: &str| -> Raw {
            json!({ "uri": uri, "frontmatter": { "name": name }, "resources": [] }).into()
        };
        let noted = with_collisions(vec![
            skill("skill://a/pdf/SKILL.md", "pdf"),
            skill("skill://b/pdf/SKILL.md", "pdf"),
            skill("skill://b/git/SKILL.md", "git"),
        ]);
        let same = |skill: &Raw| skill.at(&["_meta", SAME_NAME]).map(|same| same.as_str().to_owned());
        assert_eq!(same(&noted[0]).as_deref(), Some("[\"skill://b/pdf/SKILL.md\"]"));
        assert_eq!(same(&noted[1]).as_deref(), Some("[\"skill://a/pdf/SKILL.md\"]"));
        assert_eq!(same(&noted[2]), None);
    }
}
