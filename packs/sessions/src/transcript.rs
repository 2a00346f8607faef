//! One transcript: what it is about, and its last messages in the order of the conversation. Only the places of
//! messages are kept while a file is read, so that its size does not matter.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::Value;
use toolyard_tool::ToolError;

use crate::config::Program;
use crate::format::{self, About, Message, Step};
use crate::lines::{Lines, Place};

/// How many lines are read to find the head of a session.
const HEAD_LINES: usize = 60;

/// A file with a session.
#[derive(Clone, Debug)]
pub(crate) struct Transcript {
    pub(crate) program: Program,
    pub(crate) path: PathBuf,
    pub(crate) modified: SystemTime,
    pub(crate) bytes: u64,
    pub(crate) about: About,
    /// The files of its sub-agents.
    pub(crate) agents: Vec<PathBuf>,
}

/// The last messages of a transcript.
#[derive(Debug, Default)]
pub(crate) struct Tail {
    pub(crate) messages: Vec<Message>,
    /// How many there are in all.
    pub(crate) total: usize,
    /// Lines of unknown types and lines that are too long.
    pub(crate) skipped: usize,
}

/// Where a message is, and what it hangs below.
struct Node {
    place: Place,
    /// One of several messages in that line.
    id: Option<String>,
    parent: Option<usize>,
}

impl Transcript {
    /// Reads what the first lines say about it.
    pub(crate) fn new(program: Program, path: PathBuf) -> std::io::Result<Self> {
        let metadata = std::fs::metadata(&path)?;
        let (modified, bytes) = (metadata.modified().unwrap_or(UNIX_EPOCH), metadata.len());
        let mut about = About::default();
        let mut lines = Lines::open(&path)?;
        for _ in 0..HEAD_LINES {
            let Some((_, line)) = lines.next()? else { break };
            if let Ok(line) = serde_json::from_slice::<Value>(line) {
                format::describe(program, &line, &mut about);
            }
            if about.id.is_some() && about.folder.is_some() && about.title.is_some() {
                break;
            }
        }
        Ok(Self { program, path, modified, bytes, about, agents: Vec::new() })
    }

    /// Its own file, and those of its sub-agents.
    pub(crate) fn files(&self) -> impl Iterator<Item = &Path> {
        std::iter::once(&self.path).chain(&self.agents).map(PathBuf::as_path)
    }

    /// The id that clients name it by.
    pub(crate) fn id(&self) -> String {
        let stem =
            || self.path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
        self.about.id.clone().unwrap_or_else(stem)
    }

    /// The last `limit` messages of the conversation: of the branch that was used last.
    pub(crate) fn tail(&self, limit: usize, is_wanted: &dyn Fn() -> bool) -> Result<Tail, ToolError> {
        let mut lines = Lines::open(&self.path)?;
        let (chain, skipped) = self.chain(&mut lines, is_wanted)?;
        let mut tail = Tail { total: chain.len(), skipped: skipped + lines.skipped, ..Tail::default() };
        for node in chain.iter().rev() {
            if tail.messages.len() >= limit {
                break;
            }
            let line: Value = serde_json::from_slice(&lines.again(node.place)?)?;
            tail.messages.extend(format::message(self.program, &line, node.id.as_deref()));
        }
        tail.messages.reverse();
        Ok(tail)
    }

    /// The messages of the branch that was used last, oldest first.
    fn chain(
        &self,
        lines: &mut Lines,
        is_wanted: &dyn Fn() -> bool,
    ) -> Result<(Vec<Node>, usize), ToolError> {
        let (mut tree, mut skipped) = (Tree::default(), 0);
        while let Some((place, line)) = lines.next()? {
            if !is_wanted() {
                return Err(ToolError::new("the call was cancelled"));
            }
            let Ok(line) = serde_json::from_slice::<Value>(line) else {
                skipped += 1;
                continue;
            };
            match format::step(self.program, &line) {
                Step::Message { id, parent } => tree.add(place, id, parent.as_deref(), None),
                Step::Several(ids) => {
                    for id in ids {
                        tree.add(place, Some(id.clone()), None, Some(id));
                    }
                }
                Step::Rewind(id) => tree.rewind(&id),
                Step::About => {}
                Step::Unknown => skipped += 1,
            }
        }
        Ok((tree.branch(), skipped))
    }
}

/// The messages with their parents. One without a parent follows the one before it.
#[derive(Default)]
struct Tree {
    nodes: Vec<Node>,
    by_id: HashMap<String, usize>,
    last: Option<usize>,
}

impl Tree {
    fn add(&mut self, place: Place, id: Option<String>, parent: Option<&str>, within: Option<String>) {
        let known = id.as_ref().and_then(|id| self.by_id.get(id).copied());
        if let Some(known) = known {
            self.nodes[known].place = place;
            self.nodes[known].id = within;
            return;
        }
        let parent = match parent {
            Some(parent) => self.by_id.get(parent).copied().or(self.last),
            None => self.last,
        };
        let at = self.nodes.len();
        self.nodes.push(Node { place, id: within, parent });
        if let Some(id) = id {
            self.by_id.insert(id, at);
        }
        self.last = Some(at);
    }

    /// Takes back a message and all that follow; everything if it is unknown.
    fn rewind(&mut self, id: &str) {
        self.last = self.by_id.get(id).and_then(|at| self.nodes[*at].parent);
        let kept = self.last.map_or(0, |last| last + 1);
        self.by_id.retain(|_, at| *at < kept);
    }

    fn branch(self) -> Vec<Node> {
        let mut nodes: Vec<Option<Node>> = self.nodes.into_iter().map(Some).collect();
        let mut branch = Vec::new();
        let mut next = self.last;
        while let Some(node) = next.and_then(|at| nodes.get_mut(at)?.take()) {
            next = node.parent;
            branch.push(node);
        }
        branch.reverse();
        branch
    }
}
