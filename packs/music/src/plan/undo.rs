//! Undoes a plan, the last change first. Each step checks the files instead of relying on the journal
//! alone, so it can be repeated after an interruption, and never overwrites later changes.

use schemars::JsonSchema;
use serde::Serialize;
use toolyard_jail::{Existing, Inside, Jail, JailError};
use toolyard_tool::{Context, ToolError};

use super::OpKind;
use super::journal::{Begun, Record, Undo};
use crate::library::Library;
use crate::locks::Locked;
use crate::relocate::relocate;
use crate::trouble::JailResult as _;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Outcome {
    Undone,
    /// It had not been done, or was undone already.
    NothingToDo,
    /// Something is in the way; it was left as it is.
    Conflict,
}

/// The outcome of one operation.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Undone {
    pub(crate) op_index: usize,
    pub(crate) op_kind: OpKind,
    pub(crate) status: Outcome,
    pub(crate) detail: String,
}

pub(crate) fn undo(
    library: &Library,
    context: &Context,
    record: &Record,
    begun: &Begun,
    force: bool,
) -> Undone {
    let taken = lock(library, context, begun).and_then(|_locked| take_back(library, record, begun, force));
    let (status, detail) = match taken {
        Ok(undone) => undone,
        Err(error) => (Outcome::Conflict, error.to_string()),
    };
    Undone { op_index: begun.index, op_kind: begun.kind, status, detail }
}

/// Locks the paths that an operation changed.
fn lock<'a>(library: &'a Library, context: &Context, begun: &Begun) -> Result<Locked<'a>, ToolError> {
    let paths = match &begun.undo {
        Undo::Folders(folders) => folders.iter().collect(),
        Undo::Content { path } => vec![path],
        Undo::Move { from, to, .. } => vec![from, to],
    };
    let paths: Vec<Inside> = paths.into_iter().map(|path| library.path(path)).collect::<Result<_, _>>()?;
    library.lock(context, &paths.iter().collect::<Vec<_>>())
}

type Taken = Result<(Outcome, String), ToolError>;

fn take_back(library: &Library, record: &Record, begun: &Begun, force: bool) -> Taken {
    match &begun.undo {
        Undo::Folders(folders) => remove_folders(library, folders),
        Undo::Content { path } => restore(library, record, begun, path, force),
        Undo::Move { from, to, identity, folders, replaced } => {
            let moved = Moved {
                from: library.jail.path(from).tool_error()?,
                to: library.jail.path(to).tool_error()?,
                identity: *identity,
                kept: replaced.then(|| record.kept(begun.index)).transpose()?,
            };
            let undone = moved.back(library, begun)?;
            if undone.0 != Outcome::Conflict {
                remove_folders(library, folders)?;
            }
            Ok(undone)
        }
    }
}

/// Folders that are still empty are removed; others are used by now.
fn remove_folders(library: &Library, folders: &[String]) -> Taken {
    let mut removed = 0;
    for folder in folders.iter().rev() {
        match remove_folder(&library.jail, &library.jail.path(folder).tool_error()?) {
            Ok(()) => removed += 1,
            Err(JailError::Missing { .. } | JailError::NotEmpty { .. } | JailError::NotAFolder { .. }) => {}
            Err(error) => return Err(error).tool_error(),
        }
    }
    let status = if removed > 0 { Outcome::Undone } else { Outcome::NothingToDo };
    Ok((status, format!("removed {}", crate::tools::count(removed, "folder"))))
}

/// A leftover of a killed writer does not keep a folder.
fn remove_folder(jail: &Jail, folder: &Inside) -> Result<(), JailError> {
    match jail.remove_folder(folder) {
        Err(JailError::NotEmpty { .. }) => {
            jail.sweep(folder)?;
            jail.remove_folder(folder)
        }
        removed => removed,
    }
}

fn restore(library: &Library, record: &Record, begun: &Begun, path: &str, force: bool) -> Taken {
    let jail = &library.jail;
    let (path, kept) = (jail.path(path).tool_error()?, record.kept(begun.index)?);
    let Some(old) = jail.look_if_any(&kept).tool_error()? else {
        return Ok((Outcome::NothingToDo, format!("{path} was not written")));
    };
    let now = jail.look_if_any(&path).tool_error()?;
    if now.is_some_and(|now| now.identity == old.identity) {
        jail.remove_file(&kept).tool_error()?;
        return Ok((Outcome::NothingToDo, format!("{path} was not written")));
    }
    let is_as_left = match (now, begun.after) {
        (Some(now), Some(after)) => after.is_of(now),
        // Interrupted directly after writing: no other process had the time to change it.
        (Some(_), None) => !begun.is_done,
        (None, _) => false,
    };
    if !is_as_left && !force {
        let why =
            format!("{path} was changed or moved since; pass `force: true` to put the old file there anyway");
        return Ok((Outcome::Conflict, why));
    }
    relocate(jail, &kept, &path, Existing::Replace, &|| true)?;
    Ok((Outcome::Undone, format!("restored {path}")))
}

struct Moved {
    from: Inside,
    to: Inside,
    identity: (u64, u64),
    kept: Option<Inside>,
}

impl Moved {
    fn back(&self, library: &Library, begun: &Begun) -> Taken {
        let Self { from, to, .. } = self;
        let jail = &library.jail;
        let there = jail.look_if_any(from).tool_error().unwrap_or_default();
        if there.is_some_and(|look| look.identity == self.identity) && from != to {
            if self.is_half_copied(library, begun) {
                return Ok((
                    Outcome::Conflict,
                    format!(
                        "the copy of {from} to {to}, on another file system, was cut off: compare the two and delete one"
                    ),
                ));
            }
            // It was never moved, or is back already.
            self.put_back_replaced(library)?;
            return Ok((Outcome::NothingToDo, format!("{from} is where it was")));
        }
        let here = jail.look_if_any(to).tool_error().unwrap_or_default();
        let is_it = here.is_some_and(|look| {
            look.identity == self.identity || begun.after.is_some_and(|after| after.is_of(look))
        });
        if !is_it {
            return Ok((Outcome::Conflict, format!("{to} is no longer what was moved there")));
        }
        if there.is_some() {
            return Ok((Outcome::Conflict, format!("{from} is taken by something else")));
        }
        if let Some(parent) = from.parent() {
            jail.make_folders(&parent).tool_error()?;
        }
        relocate(jail, to, from, Existing::Keep, &|| true)?;
        self.put_back_replaced(library)?;
        Ok((Outcome::Undone, format!("moved {to} back to {from}")))
    }

    /// Killed while it was being copied, or while the original was being deleted after that: each end may hold what
    /// the other lacks.
    fn is_half_copied(&self, library: &Library, begun: &Begun) -> bool {
        let here = library.jail.look_if_any(&self.to).tool_error().unwrap_or_default();
        !begun.is_done && self.kept.is_none() && here.is_some()
    }

    fn put_back_replaced(&self, library: &Library) -> Result<(), ToolError> {
        let Some(kept) = &self.kept else { return Ok(()) };
        let jail = &library.jail;
        let Some(old) = jail.look_if_any(kept).tool_error()? else { return Ok(()) };
        if let Some(here) = jail.look_if_any(&self.to).tool_error()? {
            // The file is still there: then the kept file is its second name.
            if here.identity == old.identity {
                return jail.remove_file(kept).tool_error();
            }
            return Err(ToolError::new(format!(
                "what was at {} before is kept as {kept}, and something else is there now",
                self.to
            ))
            .hint("move that away and undo again"));
        }
        relocate(jail, kept, &self.to, Existing::Keep, &|| true).map(drop)
    }
}
