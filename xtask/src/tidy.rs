//! `cargo xtask tidy`: the rules that no linter knows. The tests of this package run it too.

mod catalogue;
mod documents;
mod edges;
mod eras;
mod heads;
mod messages;
mod places;
mod sizes;
mod source;
mod systems;
mod words;

use std::path::Path;

use anyhow::{Result, bail};

use crate::workspace::{self, Detail};
use source::Source;

#[derive(clap::Args, Default)]
pub(crate) struct Options {
    /// Write down how many words of the old dialect are left, where they are fewer than before.
    #[arg(long)]
    shrink: bool,
    /// Write the catalogues of messages in `xtask/messages` again from the code, to be reviewed as a diff.
    #[arg(long)]
    bless: bool,
}

pub(crate) fn tidy(options: &Options) -> Result<()> {
    if options.shrink {
        words::shrink()?;
    }
    if options.bless {
        catalogue::bless(&sources(&workspace::files()?).0)?;
    }
    let findings = look()?;
    for warning in &findings.warnings {
        eprintln!("warning: {warning}");
    }
    for error in &findings.errors {
        eprintln!("error: {error}");
    }
    match findings.errors.len() {
        0 => Ok(()),
        count => bail!("{count} findings; see above for what to do"),
    }
}

/// What was found. A rule adds to it and goes on, so that one run shows everything.
#[derive(Default)]
struct Findings {
    errors: Vec<String>,
    warnings: Vec<String>,
}

impl Findings {
    fn error(&mut self, place: &str, what: &str) {
        self.errors.push(format!("{place}: {what}"));
    }

    fn warn(&mut self, place: &str, what: &str) {
        self.warnings.push(format!("{place}: {what}"));
    }
}

fn look() -> Result<Findings> {
    let mut findings = Findings::default();
    edges::check(&workspace::metadata(Detail::Everything)?, &mut findings);
    let files = workspace::files()?;
    places::check(&files, &mut findings);
    let (sources, unreadable) = sources(&files);
    for (path, error) in unreadable {
        findings.error(&path, &error);
    }
    heads::check(&sources, &mut findings);
    sizes::check(&sources, &mut findings);
    eras::check(&sources, &mut findings);
    systems::check(&sources, &mut findings);
    messages::check(&files, &sources, &mut findings);
    catalogue::check(&sources, &mut findings);
    words::check(&files, &mut findings);
    documents::check(&files, &sources, &mut findings);
    Ok(findings)
}

/// The Rust files, and those that cannot be parsed with the reason.
fn sources(files: &[String]) -> (Vec<Source>, Vec<(String, String)>) {
    let mut sources = Vec::new();
    let mut unreadable = Vec::new();
    for path in files.iter().filter(|path| Path::new(path).extension().is_some_and(|kind| kind == "rs")) {
        match Source::read(path) {
            Ok(source) => sources.push(source),
            Err(error) => unreadable.push((path.clone(), format!("{error:#}"))),
        }
    }
    (sources, unreadable)
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_repository_is_tidy() {
        let findings = super::look().unwrap();
        assert!(findings.errors.is_empty(), "{}", findings.errors.join("\n"));
    }
}
