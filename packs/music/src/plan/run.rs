//! Carrying out a plan, with a line in the journal before each change.

use toolyard_jail::{Inside, JailError, Kind};
use toolyard_tool::{Context, ToolError};

use super::journal::{Journal, Line, Undo};
use super::{Operation, PlanMove};
use crate::library::Library;
use crate::relocate::{Strategy, relocate};
use crate::tags::write;
use crate::tools::change::{existing, make_dir};
use crate::tools::cover;
use crate::trouble::JailResult as _;

pub(crate) struct Runner<'a> {
    pub(crate) library: &'a Library,
    pub(crate) context: &'a Context,
    pub(crate) journal: Journal,
}

impl Runner<'_> {
    /// Carries out one operation. Returns what was done, in words.
    pub(crate) fn run(&mut self, index: usize, operation: &Operation) -> Result<String, ToolError> {
        match operation {
            Operation::Mkdir(wish) => {
                let path = self.library.path_to_change(&wish.path)?;
                let missing = make_dir(self.library, &path, true, true)?;
                if missing.is_empty() {
                    return Ok(format!("{path} already exists"));
                }
                self.begin(index, operation, Undo::Folders(texts(&missing)))?;
                let _locked = self.library.lock(self.context, &[&path])?;
                make_dir(self.library, &path, true, false)?;
                self.journal.write(&Line::Done { index, after: None })?;
                Ok(format!("made {path}"))
            }
            Operation::Move(wish) => self.relocate(index, operation, wish),
            Operation::WriteMetadata(change) => {
                let path = self.library.path_to_change(&change.path)?;
                let changed = self.rewrite(index, operation, &path, |library, context| {
                    write::write(library, context, &path, change)
                })?;
                Ok(format!("wrote {} into {path}", crate::tools::count(changed.len(), "field")))
            }
            Operation::EmbedCover(picture) => {
                let path = self.library.path_to_change(&picture.path)?;
                self.rewrite(index, operation, &path, |library, context| {
                    cover::embed(library, context, &path, picture)
                })?;
                Ok(format!("put a picture into {path}"))
            }
        }
    }

    fn begin(&mut self, index: usize, operation: &Operation, undo: Undo) -> Result<(), ToolError> {
        self.journal.write(&Line::Begin { index, kind: operation.kind(), undo })
    }

    fn relocate(
        &mut self,
        index: usize,
        operation: &Operation,
        wish: &PlanMove,
    ) -> Result<String, ToolError> {
        let (from, to) = (self.library.path_to_change(&wish.from)?, self.library.path_to_change(&wish.to)?);
        let _locked = self.library.lock(self.context, &[&from, &to])?;
        let jail = &self.library.jail;
        let look = jail.look(&from).tool_error()?;
        let taken = jail.look_if_any(&to).or_else(|error| match error {
            JailError::Missing { .. } | JailError::NotAFolder { .. } => Ok(None),
            error => Err(error),
        });
        check_move(&from, &to, look.kind, taken.tool_error()?.map(|look| look.kind), wish.overwrite)?;
        let identity = look.identity;
        let parent = to.parent().unwrap_or_default();
        let folders =
            if wish.mkdir_parents { jail.missing_folders(&parent).tool_error()? } else { Vec::new() };
        let replaced = folders.is_empty()
            && wish.overwrite
            && jail
                .look_if_any(&to)
                .tool_error()?
                .is_some_and(|look| look.kind == Kind::File && look.identity != identity);
        let undo = Undo::Move {
            from: from.to_string(),
            to: to.to_string(),
            identity,
            folders: texts(&folders),
            replaced,
        };
        self.begin(index, operation, undo)?;
        if replaced {
            self.journal.keep(self.library, self.context, index, &to)?;
        }
        if wish.mkdir_parents {
            self.library.jail.make_folders(&parent).tool_error()?;
        }
        let context = self.context;
        let strategy =
            relocate(&self.library.jail, &from, &to, existing(wish.overwrite), &|| !context.is_cancelled())?;
        // A copy is another file.
        let after = match strategy {
            Strategy::Rename => None,
            Strategy::CopyThenDelete => Some(self.library.jail.look(&to).tool_error()?.into()),
        };
        self.journal.write(&Line::Done { index, after })?;
        Ok(format!("moved {from} → {to}"))
    }

    fn rewrite<T>(
        &mut self,
        index: usize,
        operation: &Operation,
        path: &Inside,
        rewrite: impl FnOnce(&Library, &Context) -> Result<T, ToolError>,
    ) -> Result<T, ToolError> {
        let _locked = self.library.lock(self.context, &[path])?;
        // Only files have old content to keep.
        self.library.jail.open(path).tool_error()?;
        self.begin(index, operation, Undo::Content { path: path.to_string() })?;
        self.journal.keep(self.library, self.context, index, path)?;
        let written = rewrite(self.library, self.context)?;
        let after = Some(self.library.jail.look(path).tool_error()?.into());
        self.journal.write(&Line::Done { index, after })?;
        Ok(written)
    }
}

/// Checks a move: a file may replace a file; nothing else is replaced.
pub(crate) fn check_move(
    from: &Inside,
    to: &Inside,
    kind: Kind,
    taken: Option<Kind>,
    overwrite: bool,
) -> Result<(), ToolError> {
    if from.is_root() || to.is_root() {
        return Err(JailError::RootItself).tool_error();
    }
    if from == to {
        return Err(ToolError::new(format!("`{from}` already exists")).hint("leave this move out"));
    }
    if kind == Kind::Folder && to.is_within(from) {
        return Err(ToolError::new(format!("`{from}` cannot be moved into itself"))
            .hint("choose a place outside of it"));
    }
    match taken {
        None => Ok(()),
        Some(Kind::File) if overwrite && kind == Kind::File => Ok(()),
        Some(Kind::File) if !overwrite => Err(JailError::Exists { path: to.to_string() }).tool_error(),
        Some(_) => Err(ToolError::new(format!("`{to}` exists already, and only files replace files"))
            .hint("choose another name")),
    }
}

fn texts(paths: &[Inside]) -> Vec<String> {
    paths.iter().map(ToString::to_string).collect()
}
