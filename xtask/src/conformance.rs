//! `cargo xtask conformance`: the official MCP conformance suite, through the real gateway in front of the
//! testkit's fixture, or against any URL.
//!
//! Each run is one set of requirements against one arrangement: the fixture itself (a server written with
//! the SDK, which must pass the scenarios of tasks as well), then through the gateway, behind HTTP and behind
//! a child's stdio, speaking the era of the set, or with `--crossed` the other one. With `--all-doors` it is
//! every transport on either side: those that upstreams are reached by, and those that clients come in by
//! (the suite speaks HTTP only, so for the latter a second gateway is between the suite and the door).
//! HTTP+SSE is older than the modern era, so it is run with the legacy set alone. A run passes if every
//! scenario that the revision requires passes, and with them the few unscored ones that we hold ourselves
//! to (`suite::HELD_TO`), save those that `conformance-baseline.txt` excuses with a reason.

mod baseline;
mod client;
mod door;
mod scene;
mod suite;

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use clap::Args;

use crate::step::step;
use crate::workspace::Profile;
use crate::{tools, workspace};
pub(crate) use client::{Options as ClientOptions, client};
use door::Door;
use scene::Scene;
use suite::{Suite, Verdict};

#[derive(Args, Default)]
#[expect(clippy::struct_excessive_bools, reason = "flags of a command line")]
pub(crate) struct Options {
    /// Run against this endpoint instead of the gateway and the fixture.
    #[arg(long, conflicts_with_all = ["direct", "upstream", "era", "release"])]
    url: Option<String>,
    /// Run against the fixture itself, without the gateway.
    #[arg(long, conflicts_with_all = ["upstream", "era"])]
    direct: bool,
    /// How the gateway reaches the fixture; HTTP and stdio if not given.
    #[arg(long, value_enum)]
    upstream: Option<Door>,
    /// How the client reaches the gateway, through another gateway where it is not HTTP.
    #[arg(long, value_enum, conflicts_with_all = ["url", "direct", "upstream"])]
    client: Option<Door>,
    /// Every transport on either side of the gateway.
    #[arg(long, conflicts_with_all = ["url", "direct", "upstream", "client"])]
    all_doors: bool,
    /// Pin the era of the upstream in the gateway's config (`legacy`, `modern` or `auto`); that of the
    /// requirements if not given.
    #[arg(long)]
    era: Option<String>,
    /// Let the upstream speak the other era than the client.
    #[arg(long, conflicts_with_all = ["url", "direct", "era"])]
    crossed: bool,
    /// In front of servers that ask as those of the SDKs do: by a request in legacy sessions only, by `input_required`
    /// in modern requests only. The gateway finds out their era by itself.
    #[arg(long, conflicts_with_all = ["url", "client", "all_doors", "crossed", "era"])]
    asks_by_era: bool,
    /// The authorization scenarios for clients, with the gateway as the client.
    #[arg(long, conflicts_with_all = ["url", "direct", "upstream", "client", "all_doors", "crossed", "asks_by_era", "era"])]
    client_auth: bool,
    /// The scenarios of the extension for skills, through the gateway with three upstreams that have skills.
    #[arg(long, conflicts_with_all = ["url", "direct", "upstream", "client", "all_doors", "crossed", "asks_by_era", "client_auth", "era"])]
    skills: bool,
    /// Only this revision's requirements; all sets if not given.
    #[arg(long)]
    requirements: Option<String>,
    /// Only this scenario.
    #[arg(long)]
    scenario: Option<String>,
    /// Use release builds.
    #[arg(long)]
    release: bool,
    /// The nats-server of a cluster, in which the suite reaches a node that owns nothing.
    #[arg(skip)]
    nats: Option<PathBuf>,
}

impl Options {
    /// Every transport on either side.
    pub(crate) fn every_door() -> Self {
        Self { all_doors: true, ..Self::default() }
    }

    /// The upstream speaks the other era than the client.
    pub(crate) fn crossed() -> Self {
        Self { crossed: true, ..Self::default() }
    }

    /// Servers that ask as those of the SDKs do.
    pub(crate) fn asking_by_era() -> Self {
        Self { asks_by_era: true, ..Self::default() }
    }

    /// The authorization scenarios for clients.
    pub(crate) fn client_auth() -> Self {
        Self { client_auth: true, ..Self::default() }
    }

    /// The scenarios of the extension for skills.
    pub(crate) fn skills() -> Self {
        Self { skills: true, ..Self::default() }
    }

    /// Through a node of a cluster that owns nothing.
    pub(crate) fn through_a_node(nats: PathBuf) -> Self {
        Self { nats: Some(nats), ..Self::default() }
    }

    fn is_wanted(&self, requirements: &str) -> bool {
        self.requirements.as_deref().is_none_or(|only| only == requirements)
    }

    fn scenes(&self) -> Vec<Scene> {
        if let Some(url) = &self.url {
            return vec![Scene::Url(url.clone())];
        }
        if let Some(nats) = &self.nats {
            return vec![Scene::Node(nats.clone())];
        }
        if self.direct {
            return vec![Scene::Fixture];
        }
        match (self.upstream, self.client) {
            (Some(door), _) => vec![Scene::Upstream(door)],
            (None, Some(door)) => vec![Scene::Client(door)],
            (None, None) => {
                let direct = (!self.crossed && self.era.is_none()).then_some(Scene::Fixture);
                let through = if self.all_doors {
                    Scene::all()
                } else {
                    [Door::Http, Door::Stdio].map(Scene::Upstream).into()
                };
                direct.into_iter().chain(through).collect()
            }
        }
    }

    /// The era that the upstream is spoken to in, for one set of requirements.
    fn era(&self, requirements: &str) -> &str {
        match &self.era {
            Some(era) => era,
            None if self.asks_by_era => "auto",
            None if (requirements == "2026-07-28") == self.crossed => "legacy",
            None => "modern",
        }
    }

    /// What differs from the plain runs, for their names.
    fn variant(&self) -> &'static str {
        match (self.crossed, self.asks_by_era) {
            (true, _) => ", crossed",
            (_, true) => ", asking by era",
            _ => "",
        }
    }

    fn fixture_flags(&self) -> &'static [&'static str] {
        if self.asks_by_era { &["--asks-by-era"] } else { &[] }
    }

    fn profile(&self) -> Profile {
        if self.release { Profile::Release } else { Profile::Dev }
    }
}

pub(crate) fn conformance(options: &Options) -> Result<()> {
    let npm = step("install the conformance suite", tools::npm)?;
    let results = workspace::target_directory()?.join("conformance");
    let suite = Suite::new(&npm, &results)?;
    let programs = match options.url {
        Some(_) => None,
        None => Some(step("build the gateway and the fixture", || {
            scene::build(options.profile(), options.nats.is_some())
        })?),
    };
    let mut verdicts = Vec::new();
    if let Some(programs) = programs.as_deref().filter(|_| options.client_auth) {
        return client_auth(options, &suite, programs);
    }
    if let Some(programs) = programs.as_deref().filter(|_| options.skills) {
        return skills(&suite, programs, &results);
    }
    for scene in options.scenes() {
        for requirements in suite::REQUIREMENTS {
            if !options.is_wanted(requirements) || !scene.can_run(requirements) {
                continue;
            }
            // Each set gets a fresh gateway, so that what one leaves behind cannot help or harm the next.
            let era = options.era(requirements);
            let mut stage = scene.set(programs.as_deref(), era, options.fixture_flags(), &results)?;
            let name = format!("{requirements} by {}{}", scene.name(), options.variant());
            let excused = baseline::excused(requirements, &scene.label(), era);
            let verdict = step(&name, || {
                suite.run(&name, &stage.url, requirements, scene.held_to(), options.scenario.as_deref())
            })?
            .excusing(excused);
            stage.check_alive()?;
            verdict.print();
            verdicts.push(verdict);
        }
    }
    conclude(&verdicts)
}

/// The scenarios of the extension for skills, one after the other.
fn skills(suite: &Suite, programs: &Path, results: &Path) -> Result<()> {
    let mut stage = Scene::Skills.set(Some(programs), "modern", &[], results)?;
    let mut verdicts = Vec::new();
    for (requirements, scenario) in suite::SKILLS {
        let name = format!("{requirements} by {}, {scenario}", Scene::Skills.name());
        let run = || suite.run(&name, &stage.url, requirements, Scene::Skills.held_to(), Some(scenario));
        let verdict = step(&name, run)?;
        verdict.print();
        verdicts.push(verdict);
    }
    stage.check_alive()?;
    conclude(&verdicts)
}

/// The authorization scenarios for clients: each starts a gateway of its own.
fn client_auth(options: &Options, suite: &Suite, programs: &Path) -> Result<()> {
    let mut verdicts = Vec::new();
    for requirements in suite::REQUIREMENTS.into_iter().filter(|set| options.is_wanted(set)) {
        let name = format!("{requirements}, authorization of clients");
        let program = programs.join("toolyard");
        let run = || suite.run_client_auth(&name, &program, requirements, options.scenario.as_deref());
        let verdict = step(&name, run)?;
        verdict.print();
        verdicts.push(verdict);
    }
    conclude(&verdicts)
}

fn conclude(verdicts: &[Verdict]) -> Result<()> {
    println!("\nconformance:");
    for verdict in verdicts {
        println!("  {}", verdict.summary());
    }
    if verdicts.is_empty() {
        bail!("nothing was run: the sets of requirements are {}", suite::REQUIREMENTS.join(" and "));
    }
    let failed = verdicts.iter().filter(|verdict| !verdict.is_good()).count();
    if failed > 0 {
        bail!("{failed} of {} runs have required scenarios that fail", verdicts.len());
    }
    Ok(())
}
