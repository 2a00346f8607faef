//! Projects: which folders may be touched, and how a path of an argument leads into one of them.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use toolyard_jail::{Inside, Jail, JailError, Symlinks};
use toolyard_tool::ToolError;

/// Files above this size are not read: they are data, not code.
pub(crate) const MAX_FILE: u64 = 2 * 1024 * 1024;

/// The folders that the configuration names.
#[derive(Debug)]
pub(crate) struct Projects {
    folders: Vec<PathBuf>,
    write: bool,
}

/// One project: a folder, with all access through a jail.
#[derive(Clone, Debug)]
pub(crate) struct Project {
    root: PathBuf,
    jail: Jail,
    is_writable: bool,
    /// Whether the caller's connection proves its user; no other may change anything.
    pub(crate) is_proven: bool,
}

/// A folder or file of a project, as an argument named it.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) project: Project,
    /// Relative to the project's root; empty for the root itself.
    pub(crate) below: PathBuf,
}

/// The folder that a caller works in.
#[derive(Clone, Debug)]
pub(crate) struct CallerFolder {
    pub(crate) path: PathBuf,
    /// Whether the repository around it may be touched although the configuration does not name it: the connection
    /// proves its user.
    pub(crate) is_proven: bool,
}

impl Projects {
    pub(crate) fn new(folders: Vec<PathBuf>, write: bool) -> Self {
        let folders = folders.into_iter().map(|folder| folder.canonicalize().unwrap_or(folder)).collect();
        Self { folders, write }
    }

    /// Finds the project of a path: in a configured folder, or in the repository that the caller works in. A relative
    /// path is taken from the caller's folder, or else from the only configured one.
    pub(crate) fn locate(&self, path: &str, caller: Option<&CallerFolder>) -> Result<Place, ToolError> {
        let own = caller.filter(|caller| caller.is_proven).and_then(|caller| repository(&caller.path));
        let usable = caller.filter(|caller| own.is_some() || self.contains(&caller.path));
        let base = match usable {
            Some(caller) => caller.path.clone(),
            None => self.only_folder(path)?,
        };
        let wanted = base.join(path);
        let real = wanted
            .canonicalize()
            .map_err(|error| ToolError::not_found(format!("cannot open `{}`: {error}", wanted.display())))?;
        let folder =
            self.folders.iter().chain(&own).find(|folder| real.starts_with(folder)).ok_or_else(|| {
                ToolError::new(format!("`{}` is outside of the configured projects", real.display()))
                    .hint("add its folder to `projects` in [packs.code]")
            })?;
        let root = project_root(&real, folder);
        let below = real.strip_prefix(&root).unwrap_or(Path::new("")).to_owned();
        Ok(Place { project: self.project(root)?, below })
    }

    fn project(&self, root: PathBuf) -> Result<Project, ToolError> {
        let jail = Jail::new(&root, Symlinks::Forbid).map_err(jail_error)?;
        Ok(Project { root, jail, is_writable: self.write, is_proven: true })
    }

    /// Whether a folder is inside a configured one.
    pub(crate) fn contains(&self, folder: &Path) -> bool {
        self.folders.iter().any(|configured| folder.starts_with(configured))
    }

    /// Whether a path has a meaning without the caller's folder.
    pub(crate) fn has_base_for(&self, path: &str) -> bool {
        self.only_folder(path).is_ok()
    }

    /// Like `locate`, for a file that need not exist: the nearest folder above it that exists decides.
    pub(crate) fn locate_new(&self, path: &str, caller: Option<&CallerFolder>) -> Result<Place, ToolError> {
        let mut missing = Vec::new();
        let mut existing = Path::new(path);
        loop {
            let text = existing.to_string_lossy();
            match self.locate(if text.is_empty() { "." } else { &text }, caller) {
                Ok(mut place) => {
                    place.below.extend(missing.iter().rev());
                    return Ok(place);
                }
                Err(error) => {
                    // `..` would leave a folder that does not exist.
                    let (Some(parent), Some(name)) = (existing.parent(), existing.file_name()) else {
                        return Err(error);
                    };
                    missing.push(name.to_owned());
                    existing = parent;
                }
            }
        }
    }

    fn only_folder(&self, path: &str) -> Result<PathBuf, ToolError> {
        match self.folders.as_slice() {
            _ if Path::new(path).is_absolute() => Ok(PathBuf::from("/")),
            [only] => Ok(only.clone()),
            [] => Err(ToolError::new("it is not known which project is meant").hint(
                "name folders in `projects` of [packs.code], or connect with `toolyard stdio` from inside a git \
                 repository",
            )),
            _ => Err(ToolError::new(format!("`{path}` could be in any of {} projects", self.folders.len()))
                .hint("give an absolute path")),
        }
    }
}

/// The nearest folder with a `.git` at or above `path`, within `folder`; `folder` itself if there is none.
fn project_root(path: &Path, folder: &Path) -> PathBuf {
    let within = path.ancestors().take_while(|ancestor| ancestor.starts_with(folder));
    let mut repositories = within.filter(|ancestor| ancestor.join(".git").exists());
    repositories.next().unwrap_or(folder).to_owned()
}

/// The git repository around a folder.
fn repository(folder: &Path) -> Option<PathBuf> {
    folder.ancestors().find(|ancestor| ancestor.join(".git").exists()).map(Path::to_owned)
}

impl Project {
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    pub(crate) fn jail(&self) -> &Jail {
        &self.jail
    }

    /// The right to change files.
    pub(crate) fn writable(&self) -> Result<(), ToolError> {
        if self.is_writable && self.is_proven {
            return Ok(());
        }
        if self.is_writable {
            let message = format!(
                "project `{}` is read-only for this connection, which does not prove its user",
                self.root.display()
            );
            return Err(ToolError::new(message).hint("connect through `toolyard stdio`, or with a token"));
        }
        Err(ToolError::new(format!("project `{}` is read-only", self.root.display()))
            .hint("set `write = true` in [packs.code] to allow changes"))
    }

    pub(crate) fn inside(&self, path: &Path) -> Result<Inside, ToolError> {
        let text =
            path.to_str().ok_or_else(|| ToolError::new(format!("`{}` is not UTF-8", path.display())))?;
        let text = if text.is_empty() { "." } else { text };
        self.jail.path(text).map_err(jail_error)
    }

    /// The text of a file below the root. `None` where it is not text, too large, or gone.
    pub(crate) fn text(&self, path: &Path) -> Option<String> {
        let mut file = self.open(path)?;
        let size = file.metadata().ok()?.len();
        if size > MAX_FILE {
            return None;
        }
        let mut text = String::with_capacity(usize::try_from(size).ok()?);
        file.read_to_string(&mut text).ok()?;
        (!text.contains('\0')).then_some(text)
    }

    pub(crate) fn open(&self, path: &Path) -> Option<File> {
        self.jail.open(&self.inside(path).ok()?).ok()
    }
}

#[expect(clippy::needless_pass_by_value, reason = "it is passed to `map_err`")]
pub(crate) fn jail_error(error: JailError) -> ToolError {
    ToolError::new(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(result: Result<Place, ToolError>) -> String {
        result.map(|place| format!("{place:?}")).unwrap_err().message().to_owned()
    }

    #[test]
    fn a_path_leads_to_the_repository_around_it_and_nowhere_else() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        std::fs::create_dir_all(root.join("one/.git")).unwrap();
        std::fs::create_dir_all(root.join("one/src")).unwrap();
        std::fs::create_dir_all(root.join("two")).unwrap();
        let projects = Projects::new(vec![root.clone()], false);

        let place = projects.locate("one/src", None).unwrap();
        assert_eq!(
            (place.project.root(), place.below.as_path()),
            (root.join("one").as_path(), Path::new("src"))
        );
        let caller = CallerFolder { path: root.join("one"), is_proven: false };
        let place = projects.locate("src", Some(&caller)).unwrap();
        assert_eq!(place.project.root(), root.join("one"));
        assert_eq!(projects.locate("two", None).unwrap().project.root(), root);

        assert!(message(projects.locate("/etc", None)).contains("outside of the configured projects"));
        assert!(message(projects.locate("three", None)).starts_with("cannot open"));
        assert!(message(Projects::new(vec![], false).locate(".", None)).contains("not known which project"));
    }

    #[test]
    fn the_callers_own_repository_may_be_touched_only_if_the_connection_proves_its_user() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        for path in ["own/.git", "own/src", "own/other/.git", "plain", "named"] {
            std::fs::create_dir_all(root.join(path)).unwrap();
        }
        let projects = Projects::new(vec![root.join("named")], false);
        let caller = |path: &str, is_proven| CallerFolder { path: root.join(path), is_proven };
        let root_of = |path: &str, caller: &CallerFolder| {
            projects.locate(path, Some(caller)).map(|place| place.project.root().to_owned()).ok()
        };
        let proven = caller("own/src", true);
        assert_eq!(root_of(".", &proven), Some(root.join("own")));
        assert_eq!(root_of("../other", &proven), Some(root.join("own/other")));
        assert_eq!(root_of(root.join("named").to_str().unwrap(), &proven), Some(root.join("named")));
        assert_eq!(root_of("../..", &proven), None);
        assert_eq!(root_of(".", &caller("own/src", false)), Some(root.join("named")));
        assert_eq!(root_of(root.join("own").to_str().unwrap(), &caller("own/src", false)), None);
        assert_eq!(root_of(".", &caller("plain", true)), Some(root.join("named")), "it is not a repository");
    }

    #[test]
    fn a_new_file_belongs_to_the_nearest_folder_that_exists() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        std::fs::create_dir_all(root.join("one/.git")).unwrap();
        let projects = Projects::new(vec![root.clone()], true);
        let place = projects.locate_new("one/src/new/a.rs", None).unwrap();
        assert_eq!(
            (place.project.root(), place.below.as_path()),
            (root.join("one").as_path(), Path::new("src/new/a.rs"))
        );
        for path in ["/etc/new", "one/missing/../../../etc/new", "../new"] {
            assert!(projects.locate_new(path, None).is_err(), "{path}");
        }
    }

    #[test]
    fn only_text_is_read() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("text"), "héllo").unwrap();
        std::fs::write(folder.path().join("binary"), b"a\0b").unwrap();
        std::fs::write(folder.path().join("latin"), b"\xe9").unwrap();
        let project = Projects::new(vec![folder.path().to_owned()], false).locate(".", None).unwrap().project;
        assert_eq!(project.text(Path::new("text")).as_deref(), Some("héllo"));
        for path in ["binary", "latin", "missing", "../text"] {
            assert_eq!(project.text(Path::new(path)), None, "{path}");
        }
    }
}
