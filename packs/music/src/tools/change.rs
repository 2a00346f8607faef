//! Renaming, moving, making folders and deleting.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolyard_jail::{Existing, Inside, JailError, Kind};
use toolyard_tool::{Context, ToolError, WithText, tool};

use super::{ItemType, count};
use crate::library::Library;
use crate::plan::run::check_move;
use crate::relocate::{Strategy, relocate};
use crate::trouble::{JailResult as _, cancelled};

#[derive(Deserialize, JsonSchema)]
pub(crate) struct Rename {
    /// What to rename.
    from: String,
    /// Its new path; the folder it is in must exist.
    to: String,
    /// Replace a file that is there.
    #[serde(default)]
    overwrite: bool,
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct Renamed {
    from: String,
    to: String,
    item_type: ItemType,
    operation: Operation,
    success: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    overwritten: Option<bool>,
}

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Operation {
    Renamed,
    Moved,
}

/// Renames or moves a file or folder. Nothing is replaced unless `overwrite` is set.
#[tool(destructive)]
pub(crate) fn fs_rename(
    library: &Library,
    context: &Context,
    args: Rename,
) -> Result<WithText<Renamed>, ToolError> {
    let (from, to) = (library.path_to_change(&args.from)?, library.path_to_change(&args.to)?);
    let _locked = library.lock(context, &[&from, &to])?;
    let item_type = library.jail.look(&from).tool_error()?.kind.into();
    let is_taken = library.jail.look_if_any(&to).tool_error()?.is_some();
    library.jail.rename(&from, &to, existing(args.overwrite)).tool_error()?;
    let operation = if from.parent() == to.parent() { Operation::Renamed } else { Operation::Moved };
    let renamed = Renamed {
        from: from.to_string(),
        to: to.to_string(),
        item_type,
        operation,
        success: true,
        overwritten: args.overwrite.then_some(is_taken),
    };
    Ok(WithText::new(renamed, format!("{from} → {to}")))
}

pub(crate) fn existing(overwrite: bool) -> Existing {
    if overwrite { Existing::Replace } else { Existing::Keep }
}

#[derive(Deserialize, JsonSchema)]
pub(crate) struct Delete {
    /// What to delete. A link is deleted itself, not what it leads to.
    path: String,
    /// Delete a folder with everything in it.
    #[serde(default)]
    recursive: bool,
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct Deleted {
    path: String,
    item_type: ItemType,
    success: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    recursive: Option<bool>,
}

/// Deletes a file, or a folder. This cannot be undone. The root of the library is never deleted.
#[tool(destructive, idempotent)]
pub(crate) fn fs_delete(
    library: &Library,
    context: &Context,
    args: Delete,
) -> Result<WithText<Deleted>, ToolError> {
    let path = library.path_to_change(&args.path)?;
    let _locked = library.lock(context, &[&path])?;
    let kind = library.jail.look(&path).tool_error()?.kind;
    match kind {
        _ if path.is_root() => return Err(JailError::RootItself).tool_error(),
        Kind::Folder if args.recursive => {
            if !library.jail.remove_tree(&path, &mut || !context.is_cancelled()).tool_error()? {
                return Err(cancelled());
            }
        }
        Kind::Folder => library.jail.remove_folder(&path).tool_error()?,
        Kind::File | Kind::Symlink | Kind::Other => library.jail.remove_file(&path).tool_error()?,
    }
    let recursive = (kind == Kind::Folder).then_some(args.recursive);
    let deleted = Deleted { path: path.to_string(), item_type: kind.into(), success: true, recursive };
    Ok(WithText::new(deleted, format!("{path} is gone")))
}

#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub(crate) struct MakeDir {
    /// The folder to make.
    pub(crate) path: String,
    /// Make the folders above it, too.
    #[serde(default = "yes")]
    pub(crate) recursive: bool,
    /// Only say what would be done.
    #[serde(default)]
    pub(crate) dry_run: bool,
}

fn yes() -> bool {
    true
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct MadeDir {
    path: String,
    recursive: bool,
    already_existed: bool,
    /// The folders that were made, from the top down.
    created: Vec<String>,
    dry_run: bool,
}

/// Makes a folder. That it is there already is not an error.
#[tool(destructive = false, idempotent)]
pub(crate) fn fs_mkdir(
    library: &Library,
    context: &Context,
    args: MakeDir,
) -> Result<WithText<MadeDir>, ToolError> {
    let path = library.path_to_change(&args.path)?;
    let _locked = library.lock(context, &[&path])?;
    let made = make_dir(library, &path, args.recursive, args.dry_run)?;
    let text = match (made.is_empty(), args.dry_run) {
        (true, _) => format!("{path} already exists"),
        (false, true) => format!("would make {}", count(made.len(), "folder")),
        (false, false) => format!("made {}", count(made.len(), "folder")),
    };
    let made = MadeDir {
        path: path.to_string(),
        recursive: args.recursive,
        already_existed: made.is_empty(),
        created: made.iter().map(ToString::to_string).collect(),
        dry_run: args.dry_run,
    };
    Ok(WithText::new(made, text))
}

/// Makes a folder; returns the folders that were made, or would be.
pub(crate) fn make_dir(
    library: &Library,
    path: &Inside,
    recursive: bool,
    dry_run: bool,
) -> Result<Vec<Inside>, ToolError> {
    let missing = library.jail.missing_folders(path).tool_error()?;
    if missing.len() > 1 && !recursive {
        return Err(ToolError::new(format!("the folder that `{path}` should be in does not exist"))
            .hint("pass `recursive: true` to make it, too"));
    }
    if dry_run { Ok(missing) } else { library.jail.make_folders(path).tool_error() }
}

#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
pub(crate) struct Move {
    /// What to move.
    pub(crate) from: String,
    /// Where to.
    pub(crate) to: String,
    /// Make the folders it goes into.
    #[serde(default)]
    pub(crate) mkdir_parents: bool,
    /// Replace a file that is there.
    #[serde(default)]
    pub(crate) overwrite: bool,
    /// Only say what would be done.
    #[serde(default)]
    pub(crate) dry_run: bool,
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct Moved {
    from: String,
    to: String,
    item_type: ItemType,
    created_parents: Vec<String>,
    strategy: Strategy,
    overwritten: bool,
    dry_run: bool,
}

/// Moves a file or folder, also to another file system. Nothing is replaced unless `overwrite` is set.
#[tool(destructive)]
pub(crate) fn fs_move(
    library: &Library,
    context: &Context,
    args: Move,
) -> Result<WithText<Moved>, ToolError> {
    let (from, to) = (library.path_to_change(&args.from)?, library.path_to_change(&args.to)?);
    let _locked = library.lock(context, &[&from, &to])?;
    let Ready { look, parents, is_taken } = prepare(library, &from, &to, &args)?;
    let mut strategy = Strategy::Rename;
    if !args.dry_run {
        if let Some(parent) = to.parent().filter(|_| args.mkdir_parents) {
            library.jail.make_folders(&parent).tool_error()?;
        }
        strategy =
            relocate(&library.jail, &from, &to, existing(args.overwrite), &|| !context.is_cancelled())?;
    }
    let text = format!("{}{from} → {to}", if args.dry_run { "would move " } else { "" });
    let moved = Moved {
        from: from.to_string(),
        to: to.to_string(),
        item_type: look.into(),
        created_parents: parents.iter().map(ToString::to_string).collect(),
        strategy,
        overwritten: is_taken,
        dry_run: args.dry_run,
    };
    Ok(WithText::new(moved, text))
}

/// The checked parts of a move.
struct Ready {
    look: Kind,
    parents: Vec<Inside>,
    is_taken: bool,
}

fn prepare(library: &Library, from: &Inside, to: &Inside, args: &Move) -> Result<Ready, ToolError> {
    let look = library.jail.look(from).tool_error()?.kind;
    let taken = library.jail.look_if_any(to).or_else(|error| match error {
        JailError::Missing { .. } | JailError::NotAFolder { .. } => Ok(None),
        error => Err(error),
    });
    let taken = taken.tool_error()?.map(|look| look.kind);
    check_move(from, to, look, taken, args.overwrite)?;
    let parent = to.parent().unwrap_or_default();
    let parents = library.jail.missing_folders(&parent).tool_error()?;
    if !parents.is_empty() && !args.mkdir_parents {
        return Err(ToolError::new(format!("the folder `{parent}` does not exist"))
            .hint("pass `mkdir_parents: true` to make it"));
    }
    Ok(Ready { look, parents, is_taken: taken.is_some() })
}
