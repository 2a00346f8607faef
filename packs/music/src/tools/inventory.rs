//! `inventory_divergences`: where what the tags say differs from what the paths say.

use std::collections::BTreeMap;
use std::ffi::OsStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolyard_jail::{Folder, Inside};
use toolyard_tool::{Context, ToolError, WithText, clamp, tool};

use super::scan::{most, report_progress};
use crate::cursor::Cursor;
use crate::library::Library;
use crate::naming::{Template, Values, sanitised};
use crate::tags::write::Failed;
use crate::tags::{field, read};
use crate::trouble::{JailResult as _, cancelled};
use crate::walk::{AUDIO, DEEPEST, Flow, Remarks, Wanted, folders::walk_folders};

#[derive(Deserialize, JsonSchema)]
pub(crate) struct Inventory {
    /// The folder to begin in; `.` is the root of the library.
    root: String,
    /// How paths below `root` are made, such as `{album_artist}/{album}/{track:02d} {title}`. The ending of
    /// files is left out unless there is an `{ext}`.
    path_template: String,
    /// The fields to compare; by default all of the template that files have tags for.
    fields_to_compare: Option<Vec<String>>,
    /// Whether `a` and `A` differ.
    #[serde(default)]
    case_sensitive: bool,
    /// How many files to look at; a folder is never split.
    #[serde(default = "most")]
    #[schemars(range(min = 1, max = 5000), transform = clamp)]
    max_files: u32,
    /// `next_cursor` of the page before.
    cursor: Option<String>,
    /// Look at files and folders that begin with a dot, too.
    #[serde(default)]
    include_hidden: bool,
}

#[derive(Serialize, JsonSchema)]
#[expect(clippy::struct_field_names, reason = "they are the names in the answer")]
pub(crate) struct Divergences {
    directories: Vec<Directory>,
    files_scanned: u64,
    files_with_divergences: usize,
    next_cursor: Option<String>,
    truncated: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<String>,
}

/// A folder with files whose tags and paths differ.
#[derive(Serialize, JsonSchema)]
struct Directory {
    path: String,
    /// Values from its own path.
    path_inferred: Values,
    /// How many of its files have each value in their tags.
    field_value_counts: BTreeMap<String, BTreeMap<String, u32>>,
    files: Vec<Differing>,
}

#[derive(Serialize, JsonSchema)]
struct Differing {
    name: String,
    /// Values from its path; none if the path does not fit the template.
    path_inferred: Option<Values>,
    /// Values from its tags.
    tags: Values,
    divergences: Vec<Divergence>,
}

#[derive(Serialize, JsonSchema)]
struct Divergence {
    field: String,
    path_value: Option<String>,
    tag_value: Option<String>,
}

/// Compares the tags of files with what their paths say by a template, and shows where they differ. Answers
/// with pages: while there is a `next_cursor`, call again with it.
#[tool(read_only, idempotent)]
pub(crate) fn inventory_divergences(
    library: &Library,
    context: &Context,
    args: Inventory,
) -> Result<WithText<Divergences>, ToolError> {
    let template = Template::parse(&args.path_template)?;
    template.check_reversible()?;
    let fields = fields(&template, args.fields_to_compare.as_deref())?;
    let root = library.path(&args.root)?;
    let cursor = Cursor::read(library, args.cursor.as_deref())?;
    let wanted = Wanted {
        extensions: AUDIO.map(ToOwned::to_owned).to_vec(),
        max_depth: DEEPEST,
        include_hidden: args.include_hidden,
        after: cursor.after,
    };
    let mut view =
        View { context, template, fields, root, args: &args, scanned: 0, warnings: Remarks::default() };
    let mut directories = Vec::new();
    let mut last = None;
    let mut next_cursor = None;
    let remarks = walk_folders(&library.jail, &view.root.clone(), &wanted, &mut |folder, names| {
        if view.scanned >= u64::from(args.max_files) {
            next_cursor = last.as_ref().map(|last: &Inside| Cursor::write(last, cursor.seen + view.scanned));
            return Ok(Flow::Stop);
        }
        directories.extend(view.folder(folder, names).map_err(Failed)?);
        last = Some(folder.path().clone());
        Ok::<_, Failed>(Flow::On)
    });
    let mut warnings = remarks.map_err(|Failed(error)| error)?.warnings;
    warnings.extend(view.warnings.warnings);
    let differing = directories.iter().map(|directory| directory.files.len()).sum();
    let text = text(&directories, view.scanned, differing);
    let answer = Divergences {
        directories,
        files_scanned: view.scanned,
        files_with_divergences: differing,
        truncated: next_cursor.is_some(),
        next_cursor,
        warnings,
    };
    Ok(WithText::new(answer, text))
}

fn fields(template: &Template, wanted: Option<&[String]>) -> Result<Vec<String>, ToolError> {
    let known: Vec<String> =
        template.field_names().filter(|name| field(name).is_some()).map(ToOwned::to_owned).collect();
    let Some(wanted) = wanted else { return Ok(known) };
    match wanted.iter().find(|name| !known.contains(name)) {
        Some(name) => Err(ToolError::new(format!("`{name}` is not in the template"))
            .hint(format!("these can be compared: {}", known.join(", ")))),
        None => Ok(wanted.to_vec()),
    }
}

fn text(directories: &[Directory], scanned: u64, differing: usize) -> String {
    let mut lines = vec![format!("{differing} of {scanned} files differ from their paths")];
    for directory in directories {
        for file in &directory.files {
            let differences: Vec<String> = file
                .divergences
                .iter()
                .map(|one| {
                    let shown = |value: &Option<String>| value.clone().unwrap_or_else(|| "nothing".into());
                    format!("{}: path {}, tag {}", one.field, shown(&one.path_value), shown(&one.tag_value))
                })
                .collect();
            let differences = if file.path_inferred.is_none() {
                "does not fit the template".into()
            } else {
                differences.join("; ")
            };
            lines.push(format!("{}/{}: {differences}", directory.path, file.name));
        }
    }
    lines.join("\n")
}

struct View<'a> {
    context: &'a Context,
    template: Template,
    fields: Vec<String>,
    root: Inside,
    args: &'a Inventory,
    scanned: u64,
    warnings: Remarks,
}

impl View<'_> {
    /// The differences in a folder; `None` if there are none.
    fn folder(&mut self, folder: &Folder, names: &[String]) -> Result<Option<Directory>, ToolError> {
        let above: Vec<String> = folder
            .path()
            .parts()
            .skip(self.root.depth())
            .map(|part| part.to_string_lossy().into_owned())
            .collect();
        let above: Vec<&str> = above.iter().map(String::as_str).collect();
        let mut files = Vec::new();
        let mut counts: BTreeMap<String, BTreeMap<String, u32>> = BTreeMap::new();
        for name in names {
            if self.context.is_cancelled() {
                return Err(cancelled());
            }
            self.scanned += 1;
            report_progress(self.context, self.scanned, "files compared");
            let read =
                folder.open(OsStr::new(name)).tool_error().and_then(|mut file| read::tags(&mut file, name));
            let tags: Values = match read {
                Ok(tags) => tags.texts().into_iter().map(|(name, text)| (name.to_owned(), text)).collect(),
                Err(error) => {
                    self.warnings.warn(format!("{}/{name}: {}", folder.path(), error.message()));
                    continue;
                }
            };
            let tags: Values = tags.into_iter().filter(|(name, _)| self.fields.contains(name)).collect();
            for (field, value) in &tags {
                *counts.entry(field.clone()).or_default().entry(value.clone()).or_default() += 1;
            }
            files.extend(self.compare(&above, name, tags));
        }
        let path_inferred = self.template.fit_folders(&above).unwrap_or_default();
        let path = folder.path().to_string();
        Ok((!files.is_empty()).then_some(Directory {
            path,
            path_inferred,
            field_value_counts: counts,
            files,
        }))
    }

    fn compare(&self, above: &[&str], name: &str, tags: Values) -> Option<Differing> {
        let stem = match name.rsplit_once('.') {
            Some((stem, _)) if !self.template.names_the_ending() => stem,
            _ => name,
        };
        let path_inferred = self.template.fit(&[above, &[stem]].concat());
        let divergences: Vec<Divergence> = match &path_inferred {
            Some(inferred) => {
                self.fields.iter().filter_map(|field| self.differs(field, inferred, &tags)).collect()
            }
            None => Vec::new(),
        };
        let differs = path_inferred.is_none() || !divergences.is_empty();
        differs.then(|| Differing { name: name.to_owned(), path_inferred, tags, divergences })
    }

    fn differs(&self, field: &str, inferred: &Values, tags: &Values) -> Option<Divergence> {
        let (path_value, tag_value) = (inferred.get(field).cloned(), tags.get(field).cloned());
        let is_same = match (&path_value, &tag_value) {
            (Some(path), Some(tag)) => self.is_same(path, tag),
            // The path does not show this field.
            (None, _) => true,
            (Some(_), None) => false,
        };
        (!is_same).then(|| Divergence { field: field.to_owned(), path_value, tag_value })
    }

    fn is_same(&self, path: &str, tag: &str) -> bool {
        if let (Ok(path), Ok(tag)) = (path.parse::<u64>(), tag.parse::<u64>()) {
            return path == tag;
        }
        // A path can only show what names may hold.
        let (path, tag) = (sanitised(path), sanitised(tag));
        if self.args.case_sensitive { path == tag } else { path.to_lowercase() == tag.to_lowercase() }
    }
}
