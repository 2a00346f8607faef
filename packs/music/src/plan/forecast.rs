//! Simulates a plan: each operation takes the effect of the operations before it into account.

use toolyard_jail::{Inside, JailError, Kind};
use toolyard_tool::ToolError;

use super::run::check_move;
use super::{Operation, PlanMove};
use crate::library::Library;
use crate::tags::{file, write};
use crate::tools::cover;
use crate::trouble::JailResult as _;

/// The library as it would be.
pub(crate) struct Forecast<'a> {
    library: &'a Library,
    events: Vec<Event>,
}

enum Event {
    Made(Inside),
    Moved { from: Inside, to: Inside },
}

/// The origin of an entry that would be at a path.
enum Origin {
    /// It is on the disk under this path.
    Disk(Inside),
    /// It would have been made by the plan.
    Made,
    /// It would no longer be there.
    Gone,
}

impl<'a> Forecast<'a> {
    pub(crate) fn new(library: &'a Library) -> Self {
        Self { library, events: Vec::new() }
    }

    /// Simulates an operation, and describes its effect in words.
    pub(crate) fn apply(&mut self, operation: &Operation) -> Result<String, ToolError> {
        match operation {
            Operation::Mkdir(wish) => {
                let path = self.library.path_to_change(&wish.path)?;
                let made = self.make(&path)?;
                Ok(if made == 0 { format!("{path} already exists") } else { format!("would make {path}") })
            }
            Operation::Move(wish) => self.foresee_move(wish),
            Operation::WriteMetadata(change) => {
                let path = self.library.path_to_change(&change.path)?;
                let mut file = self.library.jail.open(&self.file(&path)?).tool_error()?;
                let name = path.name().and_then(|name| name.to_str()).unwrap_or_default();
                let mut audio =
                    file::open(&mut file, name, file::Parts { properties: false, pictures: false })?;
                let changed = write::apply(&mut audio, change)?;
                Ok(format!("would write {} into {path}", crate::tools::count(changed.len(), "field")))
            }
            Operation::EmbedCover(picture) => {
                let path = self.library.path_to_change(&picture.path)?;
                self.file(&path)?;
                let mut picture = picture.clone();
                if let Some(image) = &picture.image_path {
                    picture.image_path = Some(self.file(&self.library.path(image)?)?.to_string());
                }
                cover::picture(self.library, &picture)?;
                Ok(format!("would put a picture into {path}"))
            }
        }
    }

    fn foresee_move(&mut self, wish: &PlanMove) -> Result<String, ToolError> {
        let (from, to) = (self.library.path_to_change(&wish.from)?, self.library.path_to_change(&wish.to)?);
        let kind =
            self.kind(&from)?.ok_or_else(|| JailError::Missing { path: from.to_string() }).tool_error()?;
        check_move(&from, &to, kind, self.kind(&to)?, wish.overwrite)?;
        let parent = to.parent().unwrap_or_default();
        if wish.mkdir_parents {
            self.make(&parent)?;
        } else if self.kind(&parent)? != Some(Kind::Folder) {
            return Err(ToolError::new(format!("the folder `{parent}` would not exist"))
                .hint("pass `mkdir_parents: true`, or put a `mkdir` before it"));
        }
        let text = format!("would move {from} → {to}");
        self.events.push(Event::Moved { from, to });
        Ok(text)
    }

    /// Makes a folder and those above it. How many would be made.
    fn make(&mut self, path: &Inside) -> Result<usize, ToolError> {
        match self.kind(path)? {
            Some(Kind::Folder) => return Ok(0),
            Some(_) => return Err(JailError::NotAFolder { path: path.to_string() }).tool_error(),
            None => {}
        }
        let above = path.parent().map_or(Ok(0), |parent| self.make(&parent))?;
        self.events.push(Event::Made(path.clone()));
        Ok(above + 1)
    }

    /// The kind of entry that would be at a path.
    fn kind(&self, path: &Inside) -> Result<Option<Kind>, ToolError> {
        match self.origin(path)? {
            Origin::Made => Ok(Some(Kind::Folder)),
            Origin::Gone => Ok(None),
            Origin::Disk(origin) if origin.is_root() => Ok(Some(Kind::Folder)),
            // A folder that would be made holds nothing that is on the disk.
            Origin::Disk(origin) => match self.library.jail.look_if_any(&origin) {
                Err(JailError::NotAFolder { .. }) => Ok(None),
                looked => Ok(looked.tool_error()?.map(|look| look.kind)),
            },
        }
    }

    /// The present path of the file that would be at a path.
    fn file(&self, path: &Inside) -> Result<Inside, ToolError> {
        match self.origin(path)? {
            Origin::Disk(origin) => match self.library.jail.look(&origin).tool_error()?.kind {
                Kind::Folder => Err(JailError::NotAFile { path: path.to_string() }).tool_error(),
                _ => Ok(origin),
            },
            Origin::Made => Err(JailError::NotAFile { path: path.to_string() }).tool_error(),
            Origin::Gone => Err(JailError::Missing { path: path.to_string() }).tool_error(),
        }
    }

    /// Back through what would have happened.
    fn origin(&self, path: &Inside) -> Result<Origin, ToolError> {
        let mut at = path.clone();
        for event in self.events.iter().rev() {
            match event {
                Event::Made(made) if *made == at => return Ok(Origin::Made),
                Event::Moved { from, to } if at.is_within(to) => {
                    let mut origin = from.clone();
                    for part in at.parts().skip(to.depth()) {
                        origin = origin.join(part).tool_error()?;
                    }
                    at = origin;
                }
                Event::Moved { from, .. } if at.is_within(from) => return Ok(Origin::Gone),
                Event::Made(_) | Event::Moved { .. } => {}
            }
        }
        Ok(Origin::Disk(at))
    }
}
