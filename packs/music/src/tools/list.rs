//! `fs_list_dir`: what is in a folder.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolyard_jail::{Folder, Kind};
use toolyard_tool::{Context, ToolError, WithText, tool};

use super::{ItemType, count};
use crate::library::Library;
use crate::trouble::{JailResult as _, cancelled};
use crate::walk::Remarks;

const MOST_ENTRIES: usize = 1000;
const DEEPEST: i32 = 10;

#[derive(Deserialize, JsonSchema)]
pub(crate) struct ListDir {
    /// The folder; `.` is the root of the library.
    path: String,
    /// Show what begins with a dot.
    #[serde(default)]
    include_hidden: bool,
    /// Say how large files are.
    #[serde(default)]
    detailed: bool,
    /// How many levels of folders to open; -1 for as many as there are, 10 at most.
    #[serde(default)]
    #[schemars(range(min = -1))]
    recursive_depth: i32,
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct Listing {
    path: String,
    entries: Vec<Item>,
    /// Folders in all that is shown.
    dir_count: usize,
    /// Files in all that is shown.
    file_count: usize,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<String>,
}

#[derive(Serialize, JsonSchema)]
struct Item {
    name: String,
    #[serde(rename = "type")]
    kind: ItemType,
    #[serde(skip_serializing_if = "Option::is_none")]
    size: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    children: Option<Vec<Item>>,
}

/// Lists what is in a folder of the library, sorted by name. At most 1000 entries are shown.
#[tool(read_only, idempotent)]
pub(crate) fn fs_list_dir(
    library: &Library,
    context: &Context,
    args: ListDir,
) -> Result<WithText<Listing>, ToolError> {
    let path = library.path(&args.path)?;
    let folder = library.jail.folder(&path).tool_error()?;
    let depth = match args.recursive_depth {
        depth if depth < 0 => DEEPEST,
        depth => depth.min(DEEPEST),
    };
    let mut lister =
        Lister { context, args: &args, left: MOST_ENTRIES, counts: (0, 0), remarks: Remarks::default() };
    let entries = lister.list(&folder, depth)?;
    if lister.left == 0 {
        lister.remarks.warn(format!("only the first {MOST_ENTRIES} entries are shown"));
    }
    let (dir_count, file_count) = lister.counts;
    let text = format!("{path}: {}, {}", count(dir_count, "folder"), count(file_count, "file"));
    let text = entries.iter().fold(text, |text, item| text + &line(item, 1));
    let listing =
        Listing { path: path.to_string(), entries, dir_count, file_count, warnings: lister.remarks.warnings };
    Ok(WithText::new(listing, text))
}

fn line(item: &Item, level: usize) -> String {
    let ending = if item.kind == ItemType::Directory { "/" } else { "" };
    let own = format!("\n{}{}{ending}", "  ".repeat(level), item.name);
    item.children.iter().flatten().fold(own, |text, child| text + &line(child, level + 1))
}

struct Lister<'a> {
    context: &'a Context,
    args: &'a ListDir,
    left: usize,
    counts: (usize, usize),
    remarks: Remarks,
}

impl Lister<'_> {
    fn list(&mut self, folder: &Folder, depth: i32) -> Result<Vec<Item>, ToolError> {
        let mut items = Vec::new();
        for entry in folder.entries().tool_error()? {
            if self.context.is_cancelled() {
                return Err(cancelled());
            }
            let name = entry.name.to_string_lossy();
            if name.starts_with('.') && !self.args.include_hidden {
                continue;
            }
            if self.left == 0 {
                break;
            }
            self.left -= 1;
            let mut item =
                Item { name: name.into_owned(), kind: entry.kind.into(), size: None, children: None };
            match entry.kind {
                Kind::Folder => {
                    self.counts.0 += 1;
                    if depth > 0 {
                        item.children = self.children(folder, &entry.name, depth)?;
                    }
                }
                Kind::File => {
                    self.counts.1 += 1;
                    item.size = self
                        .args
                        .detailed
                        .then(|| folder.look(&entry.name).ok().map(|look| look.size))
                        .flatten();
                }
                Kind::Symlink | Kind::Other => {}
            }
            items.push(item);
        }
        Ok(items)
    }

    fn children(
        &mut self,
        folder: &Folder,
        name: &std::ffi::OsStr,
        depth: i32,
    ) -> Result<Option<Vec<Item>>, ToolError> {
        match folder.folder(name) {
            Ok(inner) => self.list(&inner, depth - 1).map(Some),
            Err(error) => {
                self.remarks.warn(error.to_string());
                Ok(None)
            }
        }
    }
}
