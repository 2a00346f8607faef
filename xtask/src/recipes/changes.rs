//! Where each piece of code of a recipe goes, as an exact place in a file. The recipes describe the same in words.

pub(super) const STEP: &str = "add-a-pipeline-step.md";
pub(super) const KEY: &str = "add-a-config-key.md";
pub(super) const TRANSPORT: &str = "add-a-transport.md";
pub(super) const COMMAND: &str = "add-a-command.md";
pub(super) const PACK: &str = "add-a-pack.md";

/// In an order in which the commands of each can run. All code is written before the first command: the step reads the
/// config key.
pub(super) const RECIPES: [&str; 5] = [STEP, KEY, TRANSPORT, COMMAND, PACK];

/// One piece of code and its place.
pub(super) struct Change {
    pub(super) recipe: &'static str,
    pub(super) text: Text,
    pub(super) place: Place,
}

pub(super) enum Text {
    /// The block of the recipe that begins like this.
    Block(&'static str),
    /// So many lines of a block, from this one on.
    Lines(&'static str, usize),
    /// Code in a sentence of the recipe, without the marks around it.
    Inline(&'static str),
    /// What the recipe asks for in words only.
    InWords(&'static str),
}

#[derive(Clone, Copy)]
pub(super) enum Place {
    New(&'static str),
    End(&'static str),
    Before(&'static str, &'static str),
    After(&'static str, &'static str),
    Instead(&'static str, &'static str),
}

use Place::{After, Before, End, Instead, New};
use Text::{Block, InWords, Inline, Lines};

const fn change(recipe: &'static str, text: Text, place: Place) -> Change {
    Change { recipe, text, place }
}

const POLICY: &str = "crates/toolyard-core/src/upstream/policy.rs";
const RULES: &str = "crates/toolyard-core/src/pipeline/rules.rs";
const UPSTREAM: &str = "crates/toolyard-config/src/upstream.rs";
const SOURCE: &str = "crates/toolyard-link/src/probe/connect/source.rs";
const COMMANDS: &str = "crates/toolyard/src/commands.rs";
const MANIFEST: &str = "crates/toolyard/Cargo.toml";
const PACKS: &str = "crates/toolyard/src/packs.rs";
const GOLDEN: &str = "crates/toolyard/tests/golden/everything-good.toml";

pub(super) const CHANGES: [Change; 41] = [
    change(STEP, Block("//! Refuses calls"), New("crates/toolyard-core/src/pipeline/max_params.rs")),
    change(
        STEP,
        InWords("    pub max_params: Option<usize>,"),
        After(POLICY, "sampling: Option<Arc<SamplingPlan>>,\n"),
    ),
    change(STEP, InWords("            max_params: None,"), After(POLICY, "            sampling: None,\n")),
    change(
        STEP,
        Block("pub(crate) fn max_params"),
        Before(
            "crates/toolyard-core/src/upstream.rs",
            "    /// Whether rules may allow calls because of its annotations.",
        ),
    ),
    change(STEP, Inline("mod max_params;"), Before("crates/toolyard-core/src/pipeline.rs", "mod hooks;\n")),
    change(
        STEP,
        Inline("pub(super) max_params: Option<usize>,"),
        After(RULES, "    pub(super) sampling: Option<Arc<SamplingPlan>>,\n"),
    ),
    change(
        STEP,
        Inline("max_params: upstream.max_params(),"),
        After(RULES, "            sampling: upstream.sampling(),\n"),
    ),
    change(
        STEP,
        Block("settings.max_params.map"),
        Before("crates/toolyard-core/src/pipeline.rs", "            limit::step(&settings.limits"),
    ),
    change(
        STEP,
        InWords("        let outer: [Option<Arc<dyn Step>>; 6] = ["),
        Instead("crates/toolyard-core/src/pipeline.rs", "        let outer: [Option<Arc<dyn Step>>; 5] = ["),
    ),
    change(STEP, Block("#[tokio::test"), End("crates/toolyard-core/tests/gateway/steps.rs")),
    change(KEY, Block("/// How many bytes"), After(UPSTREAM, "    pub sampling: Option<SamplingPlan>,\n")),
    change(
        KEY,
        Block("let max_params ="),
        Before(UPSTREAM, "    section.finish(reader);\n    Some(UpstreamConfig {"),
    ),
    change(KEY, Block("fn read_max_params"), Before(UPSTREAM, "/// `sampling = \"model:NAME\"`")),
    change(KEY, InWords("        max_params,"), After(UPSTREAM, "        trusted,\n        sampling,\n")),
    change(
        KEY,
        InWords("                max_params: None,"),
        After("crates/toolyard-config/src/mcp_servers.rs", "                sampling: None,\n"),
    ),
    change(
        KEY,
        InWords("            max_params: None,"),
        After("crates/toolyard-config/src/fingerprint.rs", "            sampling: None,\n"),
    ),
    change(
        KEY,
        Block("plan.policy.max_params"),
        Before("crates/toolyard/src/plan.rs", "    plan.policy.trusted = upstream.trusted;\n"),
    ),
    change(KEY, Inline("max_params = 65536"), After(GOLDEN, "connect_timeout = \"30s\"\n")),
    change(
        KEY,
        Inline("max_params = 0"),
        After("crates/toolyard/tests/golden/wrong-values.toml", "sharing = \"everyone\"\n"),
    ),
    change(
        KEY,
        Inline("max_params = \"much\""),
        After("crates/toolyard/tests/golden/wrong-kinds.toml", "args = \"-y server\"\n"),
    ),
    change(
        TRANSPORT,
        Lines("/// An abstract Unix socket: a name without a file.", 2),
        After(SOURCE, "    Local(PathBuf),\n"),
    ),
    change(
        TRANSPORT,
        Block("Self::Abstract(name) =>"),
        After(SOURCE, "            Self::Local(path) => write!(f, \"unix://{}\", path.display()),\n"),
    ),
    change(
        TRANSPORT,
        Block("SocketSpec::Abstract(name) => {\n    let path"),
        Before(SOURCE, "            SocketSpec::Local(path) => local::connect(path)"),
    ),
    change(
        TRANSPORT,
        Block("SocketSpec::Abstract(name) => {\n    let stream"),
        Before("crates/toolyard-core/src/apps/reach.rs", "        SocketSpec::Local(path) => {\n"),
    ),
    change(
        TRANSPORT,
        Block("if written.starts_with(\"abstract"),
        Before("crates/toolyard-config/src/reach.rs", "    if !written.starts_with(\"tcp://\") {\n"),
    ),
    change(
        TRANSPORT,
        Block("/// Connections from within"),
        Before("crates/toolyard-serve/src/lines.rs", "async fn serve<E: Entrance>("),
    ),
    change(
        TRANSPORT,
        Inline("pub use lines::{MemoryListener, serve_local, serve_memory, serve_tcp};"),
        Instead("crates/toolyard-serve/src/lib.rs", "pub use lines::{serve_local, serve_tcp};"),
    ),
    change(COMMAND, Block("//! `toolyard profiles`"), New("crates/toolyard/src/commands/profiles.rs")),
    change(COMMAND, Lines("mod profiles;", 1), Before(COMMANDS, "mod remove;\n")),
    change(
        COMMAND,
        Lines("/// List the profiles and where they are served.", 2),
        Before(COMMANDS, "    /// Remove a server from the config.\n"),
    ),
    change(
        COMMAND,
        Lines("OtherCommand::Profiles(args) => profiles::profiles(common, &args),", 1),
        Before(COMMANDS, "        OtherCommand::Remove(args)"),
    ),
    change(COMMAND, Block("# Profiles"), New("crates/toolyard/tests/commands/profiles.md")),
    change(PACK, Block("[package]"), New("packs/dice/Cargo.toml")),
    change(PACK, Block("//! The pack `dice`"), New("packs/dice/src/lib.rs")),
    change(
        PACK,
        Inline("toolyard-pack-dice = { path = \"packs/dice\" }"),
        Before("Cargo.toml", "toolyard-pack-music = {"),
    ),
    change(
        PACK,
        Inline("toolyard-pack-dice = { workspace = true, optional = true }"),
        Before(MANIFEST, "toolyard-pack-models = { workspace"),
    ),
    change(PACK, Inline("dice = [\"dep:toolyard-pack-dice\"]"), Before(MANIFEST, "models = [\"dep:")),
    change(
        PACK,
        InWords("default = [\"agents\", \"code\", \"dev\", \"dice\", "),
        Instead(MANIFEST, "default = [\"agents\", \"code\", \"dev\", "),
    ),
    change(
        PACK,
        Lines("#[cfg(feature = \"dice\")]", 2),
        Before(PACKS, "        #[cfg(feature = \"scripts\")]\n"),
    ),
    change(PACK, Inline("(\"dice\", true)"), Before(PACKS, "    (\"models\", true),\n")),
    change(
        PACK,
        InWords("const EXISTING: [(&str, bool); 8] = ["),
        Instead(PACKS, "const EXISTING: [(&str, bool); 7] = ["),
    ),
];
