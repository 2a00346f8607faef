//! `toolyard get`: shows one server of the config and its status.

use clap::Args;
use clap_complete::ArgValueCandidates;
use toolyard_config::definition::written;
use toolyard_config::secret;

use super::list::{ListedServer, ListedStates, Other, ask, is_disabled, others, print_reason};
use super::live::UpstreamState;
use super::remove::known;
use crate::cli::Common;
use crate::commands::completions;
use crate::failure::{Failure, refused};
use crate::{say, settings};

#[derive(Debug, Args)]
pub(crate) struct GetArgs {
    /// The name of the server.
    #[arg(add = ArgValueCandidates::new(completions::servers))]
    name: String,
    /// Print it as JSON.
    #[arg(long)]
    json: bool,
}

pub(super) fn get(common: &Common, args: &GetArgs) -> Result<(), Failure> {
    let (found, loaded, running) = settings::look_for_gateway(common);
    let upstreams = written(&found.sources);
    if upstreams.is_empty() && loaded.config.is_none() {
        return Err(Failure::Config(loaded.problems));
    }
    let is_it = |name: &str| name.eq_ignore_ascii_case(&args.name);
    let Some(upstream) =
        upstreams.iter().find(|own| is_it(&own.id) || own.name.as_deref().is_some_and(is_it))
    else {
        let asked = ask(running.as_ref(), &loaded);
        let others = others(&asked, loaded.config.as_ref());
        if let Some(other) = others.iter().find(|other| is_it(other.id)) {
            return show_other(other, &asked, args.json);
        }
        let ids = upstreams.iter().map(|upstream| upstream.id.as_str());
        // A user without servers has none to choose from, whatever packs there are.
        let others = others.iter().map(|other| other.id).filter(|_| !upstreams.is_empty());
        let ids: Vec<&str> = ids.chain(others).collect();
        let place = found.names().unwrap_or_else(|| "the config, which does not exist yet".to_owned());
        return Err(refused(format!("there is no `{}` in {place}", args.name), known(&args.name, &ids)));
    };
    let asked = ask(running.as_ref(), &loaded);
    let state = asked.states().iter().find(|state| state.id == upstream.id);
    if args.json {
        return Ok(say::json(&ListedServer::new(upstream, state))?);
    }
    let definition = &upstream.definition;
    let mut rows =
        vec![["name", &upstream.id].map(str::to_owned), ["from".to_owned(), upstream.place.to_string()]];
    let kind = if definition.command.is_some() { "command" } else { "url" };
    rows.push([kind.to_owned(), definition.how()]);
    rows.extend(definition.cwd.iter().map(|cwd| ["cwd".to_owned(), cwd.clone()]));
    let pair = |kind: &str, (name, value): &(String, String)| {
        [kind.to_owned(), format!("{name} = {}", secret::masked(value))]
    };
    rows.extend(definition.env.iter().map(|own| pair("env", own)));
    rows.extend(definition.headers.iter().map(|own| pair("header", own)));
    rows.push([
        "state".to_owned(),
        match state {
            _ if definition.is_off => "off (enabled = false)".to_owned(),
            None if is_disabled(upstream, loaded.config.as_ref()) => "disabled".to_owned(),
            state => how_it_is(state, &asked),
        },
    ]);
    say::table(&rows);
    state.into_iter().for_each(print_reason);
    // The problems of this server alone.
    let own = format!("upstreams.{}", upstream.id);
    loaded.problems.iter().filter(|problem| problem.key.starts_with(&own)).for_each(say::line);
    Ok(())
}

/// A pack, an app or an instance.
fn show_other(other: &Other<'_>, asked: &ListedStates, json: bool) -> Result<(), Failure> {
    if json {
        return Ok(say::json(other)?);
    }
    let state = how_it_is(other.live, asked);
    say::table(
        &[["name", other.id], ["kind", other.kind], ["state", &state]].map(|row| row.map(str::to_owned)),
    );
    other.live.into_iter().for_each(print_reason);
    Ok(())
}

fn how_it_is(state: Option<&UpstreamState>, asked: &ListedStates) -> String {
    match (state, asked) {
        (Some(state), _) => {
            let UpstreamState { phase, tools, resources, prompts, .. } = state;
            format!("{phase}, {tools} tools, {resources} resources, {prompts} prompts")
        }
        (None, ListedStates::NoGateway) => "no gateway runs with this config".to_owned(),
        (None, ListedStates::Silent) => "unknown".to_owned(),
        (None, ListedStates::States(_)) => "not loaded by the running gateway".to_owned(),
    }
}
