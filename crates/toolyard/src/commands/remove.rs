//! `toolyard remove`: removes a server from the config.

use clap::Args;
use clap_complete::ArgValueCandidates;
use serde_json::json;
use toolyard_config::definition::written;
use toolyard_config::{self as config, Problem, nearest};

use super::edit::{Draft, Where};
use crate::cli::Common;
use crate::commands::completions;
use crate::failure::{Failure, refused};
use crate::{say, settings};

#[derive(Debug, Args)]
pub(crate) struct RemoveArgs {
    /// The name of the server.
    #[arg(add = ArgValueCandidates::new(completions::servers))]
    name: String,
    #[command(flatten)]
    place: Where,
    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
}

pub(super) fn remove(common: &Common, args: &RemoveArgs) -> Result<(), Failure> {
    let mut draft = Draft::open(common, &args.place)?;
    let upstreams = draft.upstreams();
    let Some(found) = upstreams.iter().find(|upstream| upstream.id.eq_ignore_ascii_case(&args.name)) else {
        let ids: Vec<&str> = upstreams.iter().map(|upstream| upstream.id.as_str()).collect();
        return Err(refused(
            format!("there is no `{}` in {}", args.name, draft.path.display()),
            elsewhere(&args.name, args).unwrap_or_else(|| known(&args.name, &ids)),
        ));
    };
    draft.remove(&found.id);
    let problems: Vec<Problem> = draft.new_problems().into_iter().filter(Problem::is_error).collect();
    if !problems.is_empty() {
        problems.iter().for_each(say::line);
        let message = format!("{} is still needed, so nothing was changed", found.id);
        return Err(refused(message, format!("change these places in {} first", draft.path.display())));
    }
    draft.save()?;
    if args.json {
        return Ok(say::json(&json!({ "id": found.id, "file": draft.path, "changed": true }))?);
    }
    say::result(format_args!("{} removed from {}", found.id, draft.path.display()));
    Ok(())
}

/// The server may be in the other file.
fn elsewhere(name: &str, args: &RemoveArgs) -> Option<String> {
    let folder = std::env::current_dir().ok()?;
    let found = config::find(None, &folder, &settings::variable);
    let place = written(&found.sources).into_iter().find(|other| other.id.eq_ignore_ascii_case(name))?.place;
    let how = if args.place.project { "remove it without --project" } else { "remove it with --project" };
    Some(format!("it is in {place}: {how}"))
}

/// The names to choose from.
pub(super) fn known(name: &str, ids: &[&str]) -> String {
    match (nearest(name, ids.iter().copied()), ids) {
        (Some(id), _) => format!("did you mean `{id}`?"),
        (None, []) => "there are none yet: toolyard add NAME -- COMMAND…".to_owned(),
        (None, ids) => format!("there are: {}", ids.join(", ")),
    }
}
