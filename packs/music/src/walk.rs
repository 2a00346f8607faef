//! A walk over the library in the order of paths: part by part, so that it can go on after any path.
//!
//! Comparing whole paths as texts would not do: `a b.mp3` comes before `a/x.mp3` as a text, and after it on
//! the walk.

pub(crate) mod folders;

use toolyard_jail::{Entry, Folder, Inside, Jail, JailError, Kind, Look};

use crate::library::OWN_FOLDER;

/// The extensions of audio files.
pub(crate) const AUDIO: [&str; 14] =
    ["mp3", "flac", "m4a", "m4b", "mp4", "ogg", "opus", "wav", "aac", "aiff", "aif", "ape", "wv", "mpc"];

/// Deeper folders are not walked.
pub(crate) const DEEPEST: u32 = 16;

/// The selection of a walk.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    /// Lower case, without the dot; empty for every file.
    pub(crate) extensions: Vec<String>,
    pub(crate) max_depth: u32,
    pub(crate) include_hidden: bool,
    /// Where to go on: after this path.
    pub(crate) after: Option<Inside>,
}

/// A file that the walk has come to, with the folder that it is in.
pub(crate) struct Found<'a> {
    pub(crate) path: Inside,
    pub(crate) look: Look,
    pub(crate) name: &'a str,
}

impl Found<'_> {
    pub(crate) fn extension(&self) -> String {
        extension(self.name)
    }
}

pub(crate) fn extension(name: &str) -> String {
    name.rsplit_once('.').map(|(_, extension)| extension.to_lowercase()).unwrap_or_default()
}

/// Whether to go on.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flow {
    On,
    Stop,
}

/// Notes of a walk besides its files.
#[derive(Default)]
pub(crate) struct Remarks {
    pub(crate) warnings: Vec<String>,
    /// Folders were left out because they are too deep.
    pub(crate) is_cut: bool,
}

/// The maximum number of warnings.
const MOST_WARNINGS: usize = 50;

impl Remarks {
    pub(crate) fn warn(&mut self, text: impl Into<String>) {
        match self.warnings.len() {
            0..MOST_WARNINGS => self.warnings.push(text.into()),
            MOST_WARNINGS => self.warnings.push("and more".into()),
            _ => {}
        }
    }
}

/// Walks the files below `root` and shows each to `visit`.
pub(crate) fn walk<E: From<JailError>>(
    jail: &Jail,
    root: &Inside,
    wanted: &Wanted,
    visit: &mut dyn FnMut(&Found<'_>) -> Result<Flow, E>,
) -> Result<Remarks, E> {
    let folder = jail.folder(root)?;
    let mut walk = Walk { jail, wanted, visit, remarks: Remarks::default(), ancestors: Vec::new() };
    walk.folder(&folder, wanted.after.as_ref(), 0)?;
    Ok(walk.remarks)
}

struct Walk<'a, E> {
    jail: &'a Jail,
    wanted: &'a Wanted,
    visit: &'a mut dyn FnMut(&Found<'_>) -> Result<Flow, E>,
    remarks: Remarks,
    /// The folders above, to notice links that lead in circles.
    ancestors: Vec<(u64, u64)>,
}

impl<E: From<JailError>> Walk<'_, E> {
    /// `after` is only given as long as the folder is on the way to it.
    fn folder(&mut self, folder: &Folder, after: Option<&Inside>, depth: u32) -> Result<Flow, E> {
        let entries = match folder.entries() {
            Ok(entries) => entries,
            // One folder that cannot be read is not a reason to see nothing.
            Err(error) if depth > 0 => {
                self.remarks.warn(error.to_string());
                return Ok(Flow::On);
            }
            Err(error) => return Err(error.into()),
        };
        for entry in entries {
            let Some(name) = self.name_of(folder, &entry) else { continue };
            let path = folder.path().join(&entry.name)?;
            let is_on_the_way = after.is_some_and(|after| after.is_within(&path));
            if after.is_some_and(|after| path < *after) && !is_on_the_way {
                continue;
            }
            let after = after.filter(|_| is_on_the_way);
            if self.entry(folder, &entry, path, name, after, depth)? == Flow::Stop {
                return Ok(Flow::Stop);
            }
        }
        Ok(Flow::On)
    }

    fn name_of<'n>(&mut self, folder: &Folder, entry: &'n Entry) -> Option<&'n str> {
        let Some(name) = entry.name.to_str() else {
            self.remarks.warn(format!(
                "{}: the name `{}` is not Unicode; rename it first",
                folder.path(),
                entry.name.to_string_lossy()
            ));
            return None;
        };
        let is_own = folder.path().is_root() && name == OWN_FOLDER;
        let is_left_out = name.starts_with('.') && !self.wanted.include_hidden;
        (!is_own && !is_left_out && !toolyard_jail::is_leftover(&entry.name)).then_some(name)
    }

    fn entry(
        &mut self,
        folder: &Folder,
        entry: &Entry,
        path: Inside,
        name: &str,
        after: Option<&Inside>,
        depth: u32,
    ) -> Result<Flow, E> {
        match entry.kind {
            Kind::Folder => self.enter(folder.folder(&entry.name), &path, after, depth),
            Kind::File if after != Some(&path) && self.is_wanted(name) => match folder.look(&entry.name) {
                Ok(look) => (self.visit)(&Found { path, look, name }),
                Err(error) => self.pass_over(&error),
            },
            Kind::Symlink => self.link(path, name, after, depth),
            Kind::File | Kind::Other => Ok(Flow::On),
        }
    }

    /// A link counts as what it leads to, where links are followed at all.
    fn link(&mut self, path: Inside, name: &str, after: Option<&Inside>, depth: u32) -> Result<Flow, E> {
        match self.jail.folder(&path) {
            Ok(target) => self.enter(Ok(target), &path, after, depth),
            Err(JailError::NotAFolder { .. }) if after != Some(&path) && self.is_wanted(name) => {
                match self.jail.open(&path).and_then(|file| Ok(Look::of(&file)?)) {
                    Ok(look) => (self.visit)(&Found { path, look, name }),
                    Err(error) => self.pass_over(&error),
                }
            }
            Err(JailError::NotAFolder { .. } | JailError::Symlink { .. }) => Ok(Flow::On),
            Err(error) => self.pass_over(&error),
        }
    }

    fn enter(
        &mut self,
        folder: Result<Folder, JailError>,
        path: &Inside,
        after: Option<&Inside>,
        depth: u32,
    ) -> Result<Flow, E> {
        let folder = match folder {
            Ok(folder) => folder,
            Err(error) => return self.pass_over(&error),
        };
        if depth + 1 >= self.wanted.max_depth {
            self.remarks.is_cut = true;
            return Ok(Flow::On);
        }
        let identity = folder.identity()?;
        if self.ancestors.contains(&identity) {
            self.remarks.warn(format!("{path}: a link leads in circles"));
            return Ok(Flow::On);
        }
        self.ancestors.push(identity);
        let flow = self.folder(&folder, after, depth + 1);
        self.ancestors.pop();
        flow
    }

    #[expect(clippy::unnecessary_wraps, reason = "it ends arms that can fail")]
    fn pass_over(&mut self, error: &JailError) -> Result<Flow, E> {
        self.remarks.warn(error.to_string());
        Ok(Flow::On)
    }

    fn is_wanted(&self, name: &str) -> bool {
        let wanted = &self.wanted.extensions;
        wanted.is_empty() || wanted.contains(&extension(name))
    }
}
