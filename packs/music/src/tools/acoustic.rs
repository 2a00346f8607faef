//! Files that sound the same though their bytes differ: other formats, other bit rates, other tags.

use schemars::JsonSchema;
use serde::Serialize;
use toolyard_jail::Inside;
use toolyard_tool::{Context, ToolError};

use crate::fingerprint::{self, Fingerprint, difference};
use crate::library::Library;
use crate::trouble::{JailResult as _, cancelled};
use crate::walk::Remarks;

/// Recordings whose lengths differ by more are not compared.
const MOST_SECONDS: f64 = 7.0;
/// Unrelated recordings differ in half of the bits; the same one at other bit rates in a few of a hundred.
const MOST_DIFFERENT: f64 = 0.15;

/// Files with the same recording.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct AcousticGroup {
    paths: Vec<String>,
    duration_seconds: f64,
    /// From 0 to 1, of the two that are least alike among those that were compared.
    similarity: f64,
}

impl AcousticGroup {
    pub(crate) fn line(&self) -> String {
        format!("same sound ({:.0} %): {}", 100.0 * self.similarity, self.paths.join(", "))
    }
}

pub(crate) fn groups(
    library: &Library,
    context: &Context,
    paths: &[Inside],
    done_before: u64,
    remarks: &mut Remarks,
) -> Result<Vec<AcousticGroup>, ToolError> {
    let mut recordings = Vec::with_capacity(paths.len());
    for (done, path) in (1_u64..).zip(paths) {
        if context.is_cancelled() {
            return Err(cancelled());
        }
        let name = path.name().and_then(|name| name.to_str()).unwrap_or_default();
        let taken = library
            .jail
            .open(path)
            .tool_error()
            .and_then(|file| fingerprint::take(&library.config, file, name, &|| context.is_cancelled()));
        match taken {
            Ok(fingerprint) => recordings.push((path, fingerprint)),
            Err(error) => remarks.warn(format!("{path}: {}", error.message())),
        }
        context.progress_with(done_before + done, None, format!("{done} files fingerprinted"));
    }
    recordings.sort_by(|a, b| a.1.duration.total_cmp(&b.1.duration));
    join(context, &recordings)
}

/// Each recording joins the first group that sounds like it.
fn join(context: &Context, recordings: &[(&Inside, Fingerprint)]) -> Result<Vec<AcousticGroup>, ToolError> {
    let mut groups: Vec<(usize, Vec<usize>, f64)> = Vec::new();
    // Groups are in the order of their lengths, so those that are too short need not be looked at again.
    let mut first = 0;
    for (index, (_, one)) in recordings.iter().enumerate() {
        if context.is_cancelled() {
            return Err(cancelled());
        }
        while groups
            .get(first)
            .is_some_and(|group| one.duration - recordings[group.0].1.duration > MOST_SECONDS)
        {
            first += 1;
        }
        let found = groups[first..].iter_mut().find_map(|group| {
            let differs = difference(&recordings[group.0].1.items, &one.items);
            (differs < MOST_DIFFERENT).then_some((group, differs))
        });
        match found {
            Some((group, differs)) => {
                group.1.push(index);
                group.2 = group.2.max(differs);
            }
            None => groups.push((index, vec![index], 0.0)),
        }
    }
    let several = groups.into_iter().filter(|group| group.1.len() > 1);
    Ok(several
        .map(|(first, members, differs)| {
            let mut paths: Vec<&Inside> = members.iter().map(|member| recordings[*member].0).collect();
            paths.sort();
            AcousticGroup {
                paths: paths.iter().map(ToString::to_string).collect(),
                duration_seconds: recordings[first].1.duration,
                similarity: 1.0 - differs,
            }
        })
        .collect())
}
