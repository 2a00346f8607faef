//! `find_duplicates`: files with the same bytes. Files of different sizes cannot be the same, so only
//! those that share their size are read.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolyard_jail::Inside;
use toolyard_tool::{Context, ToolError, WithText, clamp, tool};

use super::acoustic::{self, AcousticGroup};
use super::count;
use super::hash::{LARGEST, sha256};
use super::scan::{deepest, endings, most, report_progress};
use crate::library::Library;
use crate::tags::write::Failed;
use crate::trouble::{JailResult as _, cancelled};
use crate::walk::{DEEPEST, Flow, Remarks, Wanted, walk};

#[derive(Deserialize, JsonSchema)]
pub(crate) struct FindDuplicates {
    /// The folder to begin in; `.` is the root of the library.
    root: String,
    /// Endings of file names, without the dot; by default all audio formats.
    #[serde(default)]
    extensions: Vec<String>,
    /// How many levels of folders to open, 16 at most.
    #[serde(default = "deepest")]
    #[schemars(range(min = 1, max = 16), transform = clamp)]
    max_depth: u32,
    /// How many files to look at.
    #[serde(default = "most")]
    #[schemars(range(min = 1, max = 5000), transform = clamp)]
    max_files: u32,
    /// Do not mention files that are too large to be read.
    #[serde(default)]
    skip_oversize_silently: bool,
    /// Look at files and folders that begin with a dot, too.
    #[serde(default)]
    include_hidden: bool,
    /// Also find files that sound the same though their bytes differ. Listens to every file, so it takes long.
    #[serde(default)]
    acoustic: bool,
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct Duplicates {
    /// The largest files first.
    groups: Vec<Group>,
    /// Files that sound the same, if that was asked for; those with the same bytes are among them.
    #[serde(skip_serializing_if = "Option::is_none")]
    acoustic_groups: Option<Vec<AcousticGroup>>,
    files_scanned: u64,
    /// Only files that share their size with another are read.
    files_hashed: u64,
    total_groups: usize,
    truncated: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<String>,
}

#[derive(Serialize, JsonSchema)]
struct Group {
    sha256: String,
    bytes: u64,
    paths: Vec<String>,
}

/// Finds files that are the same byte for byte, and with `acoustic` those that sound the same. Nothing is deleted.
#[tool(read_only, idempotent, task)]
pub(crate) fn find_duplicates(
    library: &Library,
    context: &Context,
    args: FindDuplicates,
) -> Result<WithText<Duplicates>, ToolError> {
    let wanted = Wanted {
        extensions: endings(&args.extensions),
        max_depth: args.max_depth.min(DEEPEST),
        include_hidden: args.include_hidden,
        after: None,
    };
    let mut scan = Scan::default();
    let root = library.path(&args.root)?;
    let remarks = walk(&library.jail, &root, &wanted, &mut |found| {
        if context.is_cancelled() {
            return Err(Failed(cancelled()));
        }
        if scan.scanned == u64::from(args.max_files) {
            scan.truncated = true;
            return Ok(Flow::Stop);
        }
        scan.scanned += 1;
        report_progress(context, scan.scanned, "files found");
        scan.by_size.entry(found.look.size).or_default().push(found.path.clone());
        Ok(Flow::On)
    });
    let mut remarks = remarks.map_err(|Failed(error)| error)?;
    let (groups, files_hashed) = scan.groups(library, context, &args, &mut remarks)?;
    let mut acoustic_groups = None;
    if args.acoustic {
        let mut paths: Vec<Inside> = scan.by_size.values().flatten().cloned().collect();
        paths.sort();
        let done = scan.scanned + files_hashed;
        acoustic_groups = Some(acoustic::groups(library, context, &paths, done, &mut remarks)?);
    }
    let text = text(&groups, acoustic_groups.as_deref(), usize::try_from(scan.scanned)?);
    let duplicates = Duplicates {
        total_groups: groups.len(),
        groups,
        acoustic_groups,
        files_scanned: scan.scanned,
        files_hashed,
        truncated: scan.truncated,
        warnings: remarks.warnings,
    };
    Ok(WithText::new(duplicates, text))
}

fn text(groups: &[Group], acoustic: Option<&[AcousticGroup]>, scanned: usize) -> String {
    let head = format!("{} of the same content in {}", count(groups.len(), "group"), count(scanned, "file"));
    let text = groups
        .iter()
        .fold(head, |text, group| format!("{text}\n{} bytes: {}", group.bytes, group.paths.join(", ")));
    acoustic.into_iter().flatten().fold(text, |text, group| format!("{text}\n{}", group.line()))
}

#[derive(Default)]
struct Scan {
    by_size: BTreeMap<u64, Vec<Inside>>,
    scanned: u64,
    truncated: bool,
}

impl Scan {
    fn groups(
        &self,
        library: &Library,
        context: &Context,
        args: &FindDuplicates,
        remarks: &mut Remarks,
    ) -> Result<(Vec<Group>, u64), ToolError> {
        let mut groups = Vec::new();
        let mut hashed = 0;
        for (size, paths) in self.by_size.iter().rev().filter(|(size, paths)| **size > 0 && paths.len() > 1) {
            if *size > LARGEST {
                if !args.skip_oversize_silently {
                    remarks.warn(format!(
                        "{} of {size} bytes are too large to be compared",
                        count(paths.len(), "file")
                    ));
                }
                continue;
            }
            let mut by_hash: BTreeMap<String, Vec<String>> = BTreeMap::new();
            for path in paths {
                match library.jail.open(path).tool_error().and_then(|mut file| sha256(&mut file, context)) {
                    Ok((hash, _)) => by_hash.entry(hash).or_default().push(path.to_string()),
                    Err(error) if context.is_cancelled() => return Err(error),
                    Err(error) => remarks.warn(error.to_string()),
                }
                hashed += 1;
                report_progress(context, self.scanned + hashed, "files read");
            }
            let same = by_hash.into_iter().filter(|(_, paths)| paths.len() > 1);
            groups.extend(same.map(|(sha256, paths)| Group { sha256, bytes: *size, paths }));
        }
        Ok((groups, hashed))
    }
}
