//! Explains prompts and resources: whether their server lists them, and what the rules decide.

use serde_json::json;
use toolyard_policy::rules::{Annotations, Kind, Target, has_dot_segments};
use toolyard_proto::Raw;

use super::{ExplainArgs, Explanation, decision};
use crate::commands::live::Client;
use crate::failure::{Failure, refused};
use crate::settings::Settings;

/// A prompt by `upstream:name`, or a resource by `upstream:URI`.
pub(super) async fn explain(
    client: &Client,
    settings: &Settings,
    args: &ExplainArgs,
) -> Result<Explanation, Failure> {
    let kind = if args.prompt { Kind::Prompt } else { Kind::Resource };
    let (id, name) = args.tool.split_once(':').ok_or_else(|| {
        let form = if args.prompt { "server:name" } else { "server:URI" };
        refused(format!("`{}` names no server", args.tool), format!("write {form}"))
    })?;
    let states = client.states().await?;
    let Some(state) = states.iter().find(|state| state.id.eq_ignore_ascii_case(id)) else {
        let reasons = vec![format!("there is no server `{id}` in the config")];
        return Ok(Explanation { id: args.tool.clone(), reasons, ..Explanation::default() });
    };
    let mut reasons = vec![format!("its server is {}, {}", state.id, state.phase)];
    let there = match kind {
        Kind::Prompt => has(&client.definitions(&state.id, "prompts").await?, "name", name),
        _ => is_resource(client, &state.id, name, &mut reasons).await?,
    };
    if !there {
        reasons.push(format!("{} does not list it", state.id));
    }
    if let Some(who) = &args.who {
        let upstream = settings.config.upstreams.on.iter().find(|one| one.id.as_str() == state.id);
        let canonical = format!("{}:{name}", state.id);
        let target = Target {
            kind,
            canonical: &canonical,
            annotations: Annotations::default(),
            is_trusted: upstream.is_none_or(|one| one.trusted),
        };
        let of_resource = json!({ "uri": name });
        let given = if kind == Kind::Resource { Some(&of_resource) } else { args.args.as_ref() };
        reasons.push(decision(who, given, &target, &settings.config)?);
        let is_judged = settings.config.rules.as_ref().is_some_and(|rules| rules.names_resources());
        if kind == Kind::Resource && is_judged && has_dot_segments(name) {
            reasons.push("it is refused all the same: rules cannot judge `.` or `..` in its path".to_owned());
        }
    }
    Ok(Explanation { id: args.tool.clone(), there, reasons, ..Explanation::default() })
}

fn has(list: &[Raw], key: &str, name: &str) -> bool {
    list.iter().any(|one| one.member(key).and_then(|own| own.as_string()).is_some_and(|own| own == name))
}

/// Whether a resource is listed, or may be made from a template.
async fn is_resource(
    client: &Client,
    id: &str,
    uri: &str,
    reasons: &mut Vec<String>,
) -> Result<bool, Failure> {
    if has(&client.definitions(id, "resources").await?, "uri", uri) {
        return Ok(true);
    }
    let templates = client.definitions(id, "resourceTemplates").await?;
    if templates.is_empty() {
        return Ok(false);
    }
    reasons.push(format!("it is not listed; a template of {id} may lead to it"));
    Ok(true)
}
