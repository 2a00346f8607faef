//! The runs of agents: who may start one, where, and what is known of those under way.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use data_encoding::HEXLOWER;
use parking_lot::{Mutex, MutexGuard};
use schemars::JsonSchema;
use serde::Deserialize;
use toolyard_tool::{Caller, Context, Host, Reply, ToolError};

use crate::config::{Config, MODEL, Program, TypeConfig};
use crate::run::{Job, Live, Question, worktree};
use crate::store::{Run, Status, Store, now};

/// How often a wait for a run checks whether the run has ended.
const LOOK_AGAIN: Duration = Duration::from_secs(2);
/// Why a run is cancelled that an agent has started.
const PARENT_ENDED: &str = "the agent that started it has ended";
/// How many seconds a run may take to end after its time is over.
const LAST_STEPS: i64 = 30;

/// The state that all tools share.
pub(crate) struct Agents {
    pub(crate) config: Config,
    pub(crate) host: Host,
    pub(crate) store: Arc<Store>,
    live: Arc<Mutex<HashMap<String, Arc<Live>>>>,
}

/// A run that is wanted.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    pub(crate) prompt: String,
    pub(crate) agent_type: String,
    pub(crate) description: Option<String>,
    pub(crate) model: Option<String>,
    pub(crate) timeout: u64,
    pub(crate) folder: PathBuf,
}

#[derive(Deserialize, JsonSchema)]
struct Allow {
    /// Allow it?
    allow: bool,
}

impl Agents {
    pub(crate) fn new(config: Config, host: Host) -> Result<Self, ToolError> {
        let store = Arc::new(Store::open(&host)?);
        let (of_host, of_store) = (host.clone(), store.clone());
        host.spawn("worktrees", async move { worktree::recover(&of_host, &of_store).await });
        Ok(Self { config, host, store, live: Arc::default() })
    }

    /// Starts a run in the background.
    pub(crate) fn start(&self, context: &Context, wanted: Wanted) -> Result<Run, ToolError> {
        let Some(of) = self.config.complete(&wanted.agent_type) else {
            let known: Vec<&str> = self.config.types.keys().map(String::as_str).collect();
            return Err(ToolError::new(format!("there is no type of agent `{}`", wanted.agent_type))
                .hint(format!("use one of {}, or add it as [packs.agents.types.NAME]", known.join(", "))));
        };
        if let Some(model) = wanted.model.as_deref().filter(|model| model.starts_with('-')) {
            return Err(ToolError::new(format!("`{model}` is not the name of a model"))
                .hint("a name does not begin with `-`"));
        }
        check_model(&of, &wanted)?;
        // Before the limits are checked, so that no other run is started meanwhile.
        let mut live = self.live();
        let root = self.tree_of(context, &of)?;
        if live.len() >= self.config.concurrent {
            return Err(ToolError::new(format!("{} agents are running, which is the limit", live.len()))
                .hint("wait for one of them, cancel one, or raise `concurrent` in [packs.agents]"));
        }
        let is_too_late = self.has_ended(&live, context)?;
        let (run, parents) = (new_run(context, &of, wanted)?, parents_of(&context.caller()));
        self.store.insert(&run, &parents, root.as_deref())?;
        // From here on nothing fails: the run is in the table until its work has ended.
        let own = Arc::new(Live::new(&run));
        live.insert(run.id.clone(), own.clone());
        if is_too_late {
            own.cancel(PARENT_ENDED);
        }
        drop(live);
        let job = Job {
            access: of.profile.as_ref().and_then(|profile| context.delegate(&run.id, profile)),
            of,
            store: self.store.clone(),
            host: self.host.clone(),
            live: own.clone(),
            user: parents.first().unwrap_or(&run.owner).clone(),
            run: run.clone(),
        };
        let (all, id) = (self.live.clone(), run.id.clone());
        self.host.spawn(&run.id, async move {
            job.work().await;
            let mut all = all.lock();
            all.remove(&id);
            for live in all.values().filter(|live| live.is_below(&own)) {
                live.cancel(PARENT_ENDED);
            }
        });
        Ok(run)
    }

    /// Whether the calling agent has ended in the meantime. A run that it starts now would have no parent to end it.
    fn has_ended(&self, live: &HashMap<String, Arc<Live>>, context: &Context) -> Result<bool, ToolError> {
        let Some(caller) = context.caller().runs.pop() else { return Ok(false) };
        Ok(!live.contains_key(&caller) && self.store.is_own(&caller)?)
    }

    /// A run of the caller, while it is under way.
    pub(crate) fn under_way(&self, run: &Run) -> Option<Arc<Live>> {
        self.live().get(&run.id).cloned()
    }

    /// A run that is under way, and those that its agent and the agents below it have started.
    pub(crate) fn family(&self, live: &Arc<Live>) -> Vec<Arc<Live>> {
        let mut family = vec![live.clone()];
        family.extend(self.live().values().filter(|other| other.is_below(live)).cloned());
        family
    }

    /// Cancels a run and those below it, if it is under way; returns them.
    pub(crate) fn cancel(&self, run: &Run) -> Vec<Arc<Live>> {
        let family = self.under_way(run).map(|live| self.family(&live)).unwrap_or_default();
        for (at, live) in family.iter().enumerate() {
            live.cancel(if at == 0 { "by request" } else { PARENT_ENDED });
        }
        family
    }

    /// Waits until a run has ended. If a user waits, the user is asked the questions of the run and of those below it.
    /// An agent is not asked: it must not decide for other agents.
    pub(crate) async fn wait(&self, context: &Context, run: &Run) -> Result<Run, ToolError> {
        let mut steps = 0_u32;
        let is_user = context.caller().runs.is_empty();
        while let Some(live) = self.under_way(run) {
            let asking = if is_user { self.family(&live) } else { Vec::new() };
            for question in asking.iter().filter_map(|live| live.take_question()) {
                decide(context, question).await;
            }
            tokio::select! {
                () = live.ended() => break,
                () = live.asked.notified() => {}
                () = tokio::time::sleep(LOOK_AGAIN) => {
                    steps += 1;
                    let last = self.store.tail(&run.id, 1).pop().unwrap_or_default();
                    context.progress_with(steps, None, crate::store::shortened(&last, 200));
                }
            }
        }
        self.wait_elsewhere(run).await
    }

    /// Waits for a run of another gateway, which puts its questions to the user.
    async fn wait_elsewhere(&self, run: &Run) -> Result<Run, ToolError> {
        let longest = i64::try_from(run.timeout).unwrap_or(i64::MAX).saturating_add(LAST_STEPS);
        let until = run.created.saturating_add(longest);
        loop {
            let seen = self.store.get(&run.owner, &run.id)?;
            if seen.status != Status::Running || now() > until || self.store.is_own(&run.id)? {
                return Ok(seen);
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }

    /// The project to work in: the one that is named, or the only one of the config.
    pub(crate) fn project(&self, named: Option<&str>) -> Result<PathBuf, ToolError> {
        let allowed: Vec<PathBuf> = self.config.projects.iter().map(|folder| real(folder)).collect();
        let Some(named) = named else {
            return match &allowed[..] {
                [only] => Ok(only.clone()),
                _ => {
                    Err(ToolError::new("it is not known in which project to work")
                        .hint("pass `project_path`"))
                }
            };
        };
        let folder = real(Path::new(named));
        if !folder.is_dir() || !allowed.iter().any(|base| folder.starts_with(base)) {
            return Err(ToolError::new(format!("agents may not work in `{}`", folder.display()))
                .hint("name the folder, or one above it, as `projects` in [packs.agents]"));
        }
        Ok(folder)
    }

    fn live(&self) -> MutexGuard<'_, HashMap<String, Arc<Live>>> {
        self.live.lock()
    }
}

fn new_run(context: &Context, of: &TypeConfig, wanted: Wanted) -> Result<Run, ToolError> {
    Ok(Run {
        id: format!("agent_{}", random()?),
        owner: context.caller().principal,
        model: wanted.model.or_else(|| of.model.clone()),
        agent_type: wanted.agent_type,
        prompt: wanted.prompt,
        description: wanted.description,
        timeout: wanted.timeout,
        folder: wanted.folder.display().to_string(),
        status: Status::Running,
        created: now(),
        ended: None,
        result: None,
        error: None,
        worktree: None,
        cost: None,
    })
}

/// The principals on whose behalf an agent calls, the user first; none if a user calls.
fn parents_of(caller: &Caller) -> Vec<String> {
    let mut parents: Vec<String> = Vec::new();
    for run in caller.runs.iter().rev() {
        let name = parents.last().unwrap_or(&caller.principal);
        let Some(parent) = name.strip_suffix(run.as_str()).and_then(|name| name.strip_suffix('/')) else {
            break;
        };
        parents.push(parent.to_owned());
    }
    parents.reverse();
    parents
}

/// Asks the user; without a user to ask the agent may not.
async fn decide(context: &Context, question: Question) {
    let Question { text, reply } = question;
    let allowed = context.can_ask()
        && matches!(context.ask::<Allow>(text).await, Ok(Reply::Accepted(Allow { allow: true })));
    // The run may have ended meanwhile.
    let _ = reply.send(allowed);
}

fn real(path: &Path) -> PathBuf {
    std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}

/// Whether a model can be passed on, and whether one is needed.
fn check_model(of: &TypeConfig, wanted: &Wanted) -> Result<(), ToolError> {
    let model = wanted.model.as_ref().or(of.model.as_ref());
    let name = &wanted.agent_type;
    match (model, of.places_model()) {
        (Some(model), false) if of.program == Program::Command => Err(ToolError::new(format!(
            "agents of the type `{name}` take no model, and `{model}` was passed"
        ))
        .hint(format!("leave `model` out, or write `{MODEL}` in the command of the type"))),
        (None, true) => Err(ToolError::new(format!("the command of the type `{name}` needs a model"))
            .hint("pass `model`, or set it in [packs.agents.types]")),
        _ => Ok(()),
    }
}

pub(crate) fn random() -> Result<String, ToolError> {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes).map_err(|error| ToolError::new(format!("no random numbers: {error}")))?;
    Ok(HEXLOWER.encode(&bytes))
}
