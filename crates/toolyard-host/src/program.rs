//! Which file a command runs, and whether it is inside the project that the command works on.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use toolyard_tool::host::ChildCommand;

/// A project without a repository is the working directory alone.
const REPOSITORY: &str = ".git";

/// The projects whose trust a command needs: the one whose code it runs, as stated, and the one that its program is in.
pub(crate) fn projects(command: &ChildCommand) -> Vec<PathBuf> {
    let own = command.project.clone();
    let around = match command.folder.as_deref() {
        Some(folder) => {
            let project = project_of(folder);
            if is_inside(command, &project) { vec![project] } else { Vec::new() }
        }
        None => repositories_of_program(command),
    };
    own.into_iter().chain(around).collect()
}

/// The repositories that a program is in that is named by its path and works in no folder: by that path, and by where
/// links lead. Folders on `PATH` are the user's choice, although version managers keep theirs in a repository.
fn repositories_of_program(command: &ChildCommand) -> Vec<PathBuf> {
    let named = Path::new(&command.program);
    if named.components().count() < 2 {
        return Vec::new();
    }
    let program = std::path::absolute(named).unwrap_or_else(|_| named.to_owned());
    let folder = program.parent().map(Path::to_owned).unwrap_or_default();
    let on_path = std::env::var_os("PATH").unwrap_or_default();
    if std::env::split_paths(&on_path).any(|place| place == folder) {
        return Vec::new();
    }
    let real = std::fs::canonicalize(&program).ok();
    let real = real.as_deref().and_then(Path::parent).map(project_of);
    let mut around = vec![project_of(&folder)];
    around.extend(real);
    around.dedup();
    around.retain(|project| project.join(REPOSITORY).exists());
    around
}

/// The nearest folder above, or this one, with a repository.
fn project_of(folder: &Path) -> PathBuf {
    let folder = std::fs::canonicalize(folder).unwrap_or_else(|_| folder.to_owned());
    let root = folder.ancestors().find(|folder| folder.join(REPOSITORY).exists());
    root.unwrap_or(&folder).to_owned()
}

/// Whether the program is inside the project, by its path or by the target of a link: either can be changed in the
/// project.
fn is_inside(command: &ChildCommand, project: &Path) -> bool {
    let Some(program) = find(command) else { return false };
    let real = std::fs::canonicalize(&program).unwrap_or_else(|_| program.clone());
    let folder = program.parent().and_then(|folder| std::fs::canonicalize(folder).ok()).unwrap_or_default();
    real.starts_with(project) || folder.starts_with(project)
}

/// The path at which the system finds the program: a name is looked up in `PATH`, a path starts from the working
/// directory.
fn find(command: &ChildCommand) -> Option<PathBuf> {
    let folder = command.folder.as_deref().unwrap_or(Path::new(""));
    if Path::new(&command.program).components().count() > 1 {
        return Some(folder.join(&command.program));
    }
    let path = path_of(command)?;
    let candidates = std::env::split_paths(&path).map(|place| folder.join(place).join(&command.program));
    candidates.into_iter().find(|program| program.is_file())
}

fn path_of(command: &ChildCommand) -> Option<OsString> {
    let own = command.env.iter().rev().find(|(name, _)| name == OsStr::new("PATH"));
    own.map(|(_, value)| value.clone()).or_else(|| std::env::var_os("PATH"))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_program_inside_the_project_needs_trust_however_it_is_named() {
        let place = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(place.path()).unwrap();
        let (project, below, bin) = (root.join("app"), root.join("app/src"), root.join("app/bin"));
        for folder in [&below, &bin, &project.join(REPOSITORY)] {
            fs::create_dir_all(folder).unwrap();
        }
        fs::write(bin.join("lint"), "").unwrap();
        let check = |command: ChildCommand, expected: &[&Path]| {
            assert_eq!(projects(&command.clone().folder(&below)), expected, "{command:?}");
        };
        check(ChildCommand::new("../bin/lint"), &[&project]);
        check(ChildCommand::new(bin.join("lint")), &[&project]);
        check(ChildCommand::new("lint").env("PATH", &bin), &[&project]);
        check(ChildCommand::new("lint").env("PATH", "../bin:/usr/bin"), &[&project]);
        check(ChildCommand::new("sh").env("PATH", "/bin"), &[]);
        check(ChildCommand::new("sh").env("PATH", "/bin").runs_code_of("/other"), &[Path::new("/other")]);
        check(ChildCommand::new("no-such-program"), &[]);
    }

    #[test]
    fn a_program_of_a_repository_needs_trust_although_it_works_in_no_folder() {
        let place = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(place.path()).unwrap();
        let (bin, elsewhere) = (root.join("app/bin"), root.join("elsewhere"));
        for folder in [&bin, &root.join("app").join(REPOSITORY), &elsewhere] {
            fs::create_dir_all(folder).unwrap();
        }
        let none: [PathBuf; 0] = [];
        assert_eq!(projects(&ChildCommand::new(bin.join("lint"))), [root.join("app")]);
        assert_eq!(projects(&ChildCommand::new(elsewhere.join("lint"))), none);
        assert_eq!(projects(&ChildCommand::new("sh")), none);
        let on_path = std::env::split_paths(&std::env::var_os("PATH").unwrap()).next().unwrap();
        assert_eq!(projects(&ChildCommand::new(on_path.join("lint"))), none);
    }

    #[cfg(unix)]
    #[test]
    fn a_link_into_a_repository_needs_its_trust() {
        let place = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(place.path()).unwrap();
        fs::create_dir_all(root.join("app").join(REPOSITORY)).unwrap();
        fs::write(root.join("app/lint"), "").unwrap();
        std::os::unix::fs::symlink(root.join("app/lint"), root.join("lint")).unwrap();
        assert_eq!(projects(&ChildCommand::new(root.join("lint"))), [root.join("app")]);
    }

    #[cfg(unix)]
    #[test]
    fn a_link_in_the_project_needs_trust_wherever_it_leads() {
        let place = tempfile::tempdir().unwrap();
        let root = fs::canonicalize(place.path()).unwrap();
        std::os::unix::fs::symlink("/bin/sh", root.join("python")).unwrap();
        assert_eq!(projects(&ChildCommand::new("./python").folder(&root)), [root]);
    }
}
