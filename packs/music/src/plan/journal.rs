//! What a plan is about to do and has done, line by line in `.toolyard/plans/ID/journal`. A line is on the disk
//! before the change that it describes. Files that a change replaces keep a second name beside it.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Write as _};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use toolyard_jail::{Existing, Inside, JailError, Kind, Look, copy_while};
use toolyard_tool::{Context, ToolError};

use super::OpKind;
use crate::library::{Library, OWN_FOLDER};
use crate::trouble::JailResult as _;

/// Older plans can no longer be undone: their files need space.
const MOST_PLANS: usize = 20;
const FOLDER: &str = "plans";
const FILE: &str = "journal";

/// One line.
#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Line {
    Plan {
        created: u64,
        operations: usize,
    },
    /// About to be done.
    Begin {
        index: usize,
        kind: OpKind,
        undo: Undo,
    },
    /// Done; the state of the file after it was written.
    Done {
        index: usize,
        after: Option<Stamp>,
    },
}

/// How to undo a change.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Undo {
    /// These folders were not there.
    Folders(Vec<String>),
    /// This was moved.
    Move {
        from: String,
        to: String,
        /// Which file or folder it is.
        identity: (u64, u64),
        /// These folders were not there.
        folders: Vec<String>,
        /// Whether what was replaced is kept.
        replaced: bool,
    },
    /// This file was written into; the old one is kept.
    Content { path: String },
}

/// The state of a file after it was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub(crate) struct Stamp {
    identity: (u64, u64),
    size: u64,
    modified: u128,
}

impl Stamp {
    /// Whether this is what the plan left there. A file that was moved to another file system and back is another file
    /// with the same content, and a folder changes with its content.
    pub(crate) fn is_of(self, look: Look) -> bool {
        let now = Self::from(look);
        match look.kind {
            Kind::Folder => now.identity == self.identity,
            _ => (now.size, now.modified) == (self.size, self.modified),
        }
    }
}

impl From<Look> for Stamp {
    fn from(look: Look) -> Self {
        let modified = look.modified.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
        Self { identity: look.identity, size: look.size, modified }
    }
}

/// A plan that is being carried out.
pub(crate) struct Journal {
    pub(crate) id: String,
    folder: Inside,
    file: File,
}

impl Journal {
    pub(crate) fn begin(library: &Library, operations: usize) -> Result<Self, ToolError> {
        let plans = library.own_folder(FOLDER)?;
        forget_old(library, &plans)?;
        let created = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let mut random = [0; 3];
        getrandom::fill(&mut random)
            .map_err(|error| ToolError::new(format!("no random numbers: {error}")))?;
        // Names sort by time.
        let id = format!("plan-{:014}-{}", created.as_millis(), data_encoding::HEXLOWER.encode(&random));
        let folder = plans.join(&id).tool_error()?;
        library.jail.make_folder(&folder).tool_error()?;
        let file = library.jail.append(&folder.join(FILE).tool_error()?).tool_error()?;
        library.jail.sync(&plans).tool_error()?;
        let mut journal = Self { id, folder, file };
        journal.write(&Line::Plan { created: created.as_secs(), operations })?;
        Ok(journal)
    }

    /// The line is on the disk when this returns.
    pub(crate) fn write(&mut self, line: &Line) -> Result<(), ToolError> {
        let mut text = serde_json::to_vec(line)?;
        text.push(b'\n');
        self.file.write_all(&text)?;
        if !matches!(line, Line::Done { .. }) {
            self.file.sync_data()?;
        }
        Ok(())
    }

    /// Gives a file that is about to be replaced a second name.
    pub(crate) fn keep(
        &self,
        library: &Library,
        context: &Context,
        index: usize,
        path: &Inside,
    ) -> Result<(), ToolError> {
        let kept = kept(&self.folder, index)?;
        match library.jail.link(path, &kept) {
            // Other file systems, and those without second names.
            Err(JailError::OtherDevice { .. } | JailError::Io { .. }) => {
                let mut file = library.jail.open(path).tool_error()?;
                let modified = file.metadata()?.modified()?;
                library
                    .jail
                    .write(&kept, Existing::Keep, |copy| {
                        copy_while(&mut file, copy, &|| !context.is_cancelled())?;
                        Ok(copy.set_modified(modified)?)
                    })
                    .tool_error()
            }
            linked => linked.tool_error(),
        }
    }
}

/// A plan as recorded in its journal.
pub(crate) struct Record {
    pub(crate) id: String,
    pub(crate) folder: Inside,
    pub(crate) created: u64,
    pub(crate) operations: usize,
    pub(crate) begun: Vec<Begun>,
}

pub(crate) struct Begun {
    pub(crate) index: usize,
    pub(crate) kind: OpKind,
    pub(crate) undo: Undo,
    pub(crate) is_done: bool,
    pub(crate) after: Option<Stamp>,
}

impl Record {
    pub(crate) fn kept(&self, index: usize) -> Result<Inside, ToolError> {
        kept(&self.folder, index)
    }

    /// Everything is undone: nothing needs to be kept.
    pub(crate) fn forget(&self, library: &Library) -> Result<(), ToolError> {
        library.jail.remove_tree(&self.folder, &mut || true).tool_error().map(drop)
    }
}

fn kept(folder: &Inside, index: usize) -> Result<Inside, ToolError> {
    folder.join(format!("{index}.kept")).tool_error()
}

/// All plans that can be undone, the oldest first.
pub(crate) fn all(library: &Library) -> Result<Vec<Record>, ToolError> {
    let plans = Inside::root().join(OWN_FOLDER).and_then(|own| own.join(FOLDER)).tool_error()?;
    let ids = match library.jail.folder(&plans) {
        Err(JailError::Missing { .. }) => return Ok(Vec::new()),
        folder => ids(&folder.tool_error()?.entries().tool_error()?),
    };
    ids.into_iter().filter_map(|id| read(library, &plans, id).transpose()).collect()
}

fn ids(entries: &[toolyard_jail::Entry]) -> Vec<String> {
    let folders = entries.iter().filter(|entry| entry.kind == Kind::Folder);
    folders.filter_map(|entry| entry.name.to_str()).map(ToOwned::to_owned).collect()
}

fn read(library: &Library, plans: &Inside, id: String) -> Result<Option<Record>, ToolError> {
    let folder = plans.join(&id).tool_error()?;
    let file = match library.jail.open(&folder.join(FILE).tool_error()?) {
        // The process was killed before the first line.
        Err(JailError::Missing { .. }) => return Ok(None),
        file => file.tool_error()?,
    };
    let mut record = Record { id, folder, created: 0, operations: 0, begun: Vec::new() };
    for line in BufReader::new(file).lines() {
        // A last line without an end was being written when the process was killed: its change never began.
        let Ok(line) = serde_json::from_str::<Line>(&line?) else { break };
        match line {
            Line::Plan { created, operations } => (record.created, record.operations) = (created, operations),
            Line::Begin { index, kind, undo } => {
                record.begun.push(Begun { index, kind, undo, is_done: false, after: None });
            }
            Line::Done { index, after } => {
                if let Some(begun) = record.begun.iter_mut().find(|begun| begun.index == index) {
                    (begun.is_done, begun.after) = (true, after);
                }
            }
        }
    }
    Ok(Some(record))
}

fn forget_old(library: &Library, plans: &Inside) -> Result<(), ToolError> {
    let ids = ids(&library.jail.folder(plans).tool_error()?.entries().tool_error()?);
    for id in ids.iter().rev().skip(MOST_PLANS - 1) {
        library.jail.remove_tree(&plans.join(id).tool_error()?, &mut || true).tool_error()?;
    }
    Ok(())
}
