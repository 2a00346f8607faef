//! A walk from folder to folder: a folder with all its files, then those below it. So a page of results never
//! splits a folder.

use toolyard_jail::{Folder, Inside, Jail, JailError, Kind};

use super::{Flow, Remarks, Wanted, extension};
use crate::library::OWN_FOLDER;

/// The callback for a folder and the names of its files.
type Visit<'a, E> = dyn FnMut(&Folder, &[String]) -> Result<Flow, E> + 'a;

/// Shows each folder with the names of its wanted files to `visit`. `wanted.after` is the last folder that was
/// seen.
pub(crate) fn walk_folders<E: From<JailError>>(
    jail: &Jail,
    root: &Inside,
    wanted: &Wanted,
    visit: &mut Visit<'_, E>,
) -> Result<Remarks, E> {
    let folder = jail.folder(root)?;
    let mut remarks = Remarks::default();
    enter(&folder, wanted, wanted.after.as_ref(), 1, &mut remarks, visit)?;
    Ok(remarks)
}

fn enter<E: From<JailError>>(
    folder: &Folder,
    wanted: &Wanted,
    after: Option<&Inside>,
    depth: u32,
    remarks: &mut Remarks,
    visit: &mut Visit<'_, E>,
) -> Result<Flow, E> {
    let (mut files, mut folders) = (Vec::new(), Vec::new());
    for entry in folder.entries()? {
        let Some(name) = entry.name.to_str() else {
            remarks.warn(format!(
                "{}: the name `{}` is not Unicode",
                folder.path(),
                entry.name.to_string_lossy()
            ));
            continue;
        };
        let is_own = folder.path().is_root() && name == OWN_FOLDER;
        if is_own || (name.starts_with('.') && !wanted.include_hidden) {
            continue;
        }
        match entry.kind {
            Kind::Folder => folders.push(entry.name),
            Kind::File if wanted.extensions.is_empty() || wanted.extensions.contains(&extension(name)) => {
                files.push(name.to_owned());
            }
            Kind::File | Kind::Symlink | Kind::Other => {}
        }
    }
    if after.is_none_or(|after| folder.path() > after)
        && !files.is_empty()
        && visit(folder, &files)? == Flow::Stop
    {
        return Ok(Flow::Stop);
    }
    for name in folders {
        let path = folder.path().join(&name)?;
        let is_on_the_way = after.is_some_and(|after| after.is_within(&path));
        if after.is_some_and(|after| path < *after) && !is_on_the_way {
            continue;
        }
        if depth >= wanted.max_depth {
            remarks.is_cut = true;
            continue;
        }
        match folder.folder(&name) {
            Ok(inner) => {
                let after = after.filter(|_| is_on_the_way);
                if enter(&inner, wanted, after, depth + 1, remarks, visit)? == Flow::Stop {
                    return Ok(Flow::Stop);
                }
            }
            Err(error) => remarks.warn(error.to_string()),
        }
    }
    Ok(Flow::On)
}
