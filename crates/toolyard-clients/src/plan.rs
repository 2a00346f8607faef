//! What an import would do, server by server. Whatever is in the config already stays as it is, so the same
//! import done again does nothing.

use std::collections::BTreeMap;

use toolyard_config::definition::{Definition, Written};
use toolyard_config::environment;
use toolyard_config::{Level, Problem};
use toolyard_proto::name::sanitize_upstream_id;

use super::adapt::{Adapted, Context, SecretUse, StoredSecret, adapt};
use crate::Origin;
use crate::read::{Foreign, read};

/// One server of another client, and what becomes of it.
#[derive(Debug)]
pub struct Step {
    /// Which of the origins it is from.
    pub origin: usize,
    /// Its name there.
    pub name: String,
    pub action: Action,
    /// Keys that mean nothing here.
    pub unused: Vec<String>,
    pub is_app: bool,
}

impl Step {
    pub fn is_new(&self) -> bool {
        matches!(self.action, Action::Add { .. })
    }
}

#[derive(Debug)]
pub enum Action {
    Add {
        id: String,
        definition: Box<Definition>,
        missing: BTreeMap<String, String>,
        /// Secrets to store.
        secrets: Vec<StoredSecret>,
    },
    /// The same server is there, under this id.
    Same {
        id: String,
    },
    /// Another one of this name is there.
    Kept {
        id: String,
    },
    Skip {
        why: String,
    },
}

pub fn plan(
    origins: &[Origin],
    there: &[Written],
    secrets: SecretUse<'_>,
    remarks: &mut Vec<Problem>,
) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    for (number, origin) in origins.iter().enumerate() {
        let (servers, inputs) = match read(origin) {
            Ok(read) => read,
            Err(problems) => {
                remarks.extend(problems);
                continue;
            }
        };
        if servers.is_empty() && origin.client.is_empty() {
            let message = format!("{} has no servers in a known format", origin.path.display());
            let help = "known are `mcpServers`, `servers`, `context_servers` and [mcp_servers]";
            remarks.push(Problem::error("", message, help));
        }
        let here = std::env::current_dir().unwrap_or_default();
        for foreign in servers {
            let project = if foreign.is_of_folder { Some(here.as_path()) } else { origin.project.as_deref() };
            let is_set = |name: &str| environment(name).is_some();
            let context = Context { project, inputs: &inputs, secrets, is_set: &is_set };
            let action = decide(&foreign, there, &steps, &context);
            let Foreign { name, mut unused, is_app, definition, .. } = foreign;
            let is_lost = |action: &Action| matches!(action, Action::Add { definition, .. } if definition.env_file.is_none());
            unused.extend((definition.env_file.is_some() && is_lost(&action)).then(|| "envFile".to_owned()));
            steps.push(Step { origin: number, name, action, unused, is_app });
        }
    }
    remarks.iter_mut().filter(|_| origins.len() > 1).for_each(|remark| remark.level = Level::Warning);
    steps
}

fn decide(foreign: &Foreign, there: &[Written], steps: &[Step], context: &Context<'_>) -> Action {
    if let Some(why) = foreign.obstacle {
        return Action::Skip { why: why.to_owned() };
    }
    // A gateway behind itself would call itself.
    if foreign.is_toolyard() {
        return Action::Skip { why: "is Toolyard itself".to_owned() };
    }
    let planned = |wanted: &str| {
        steps
            .iter()
            .any(|step| matches!(&step.action, Action::Add { id, .. } if id.eq_ignore_ascii_case(wanted)))
    };
    // Names of variables are made from the id, so it must be the one without `-2`.
    let plain = sanitize_upstream_id(&foreign.name, |_| false).as_str().to_owned();
    let Adapted { definition, missing, secrets } = adapt(foreign, &plain, context);
    let same = there.iter().find(|own| own.definition.leads_where(&definition)).map(|own| &own.id);
    let same = same.or_else(|| {
        steps.iter().find_map(|step| match &step.action {
            Action::Add { id, definition: own, .. } if own.leads_where(&definition) => Some(id),
            _ => None,
        })
    });
    if let Some(id) = same {
        return Action::Same { id: id.clone() };
    }
    if let Some(own) = there.iter().find(|own| own.id.eq_ignore_ascii_case(&plain)) {
        return Action::Kept { id: own.id.clone() };
    }
    let taken = |id: &str| planned(id) || there.iter().any(|own| own.id.eq_ignore_ascii_case(id));
    let id = sanitize_upstream_id(&foreign.name, taken).as_str().to_owned();
    Action::Add { id, definition: Box::new(definition), missing, secrets }
}
