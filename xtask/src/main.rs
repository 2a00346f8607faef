//! The menu of this repository: `cargo xtask <command>`. Continuous integration calls the same commands.
//!
//! One file per command; the rest (`process`, `workspace`, `tools`, `step`) is what they share.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command line tool: it talks to people")]

mod agents;
mod bench;
mod check;
mod ci;
mod cluster;
mod code;
mod conformance;
mod deny;
mod dist;
mod lsp;
mod metrics;
mod newcomer;
mod offline;
mod peers;
mod picture;
mod process;
mod recipes;
mod search;
mod seeds;
mod sign_in;
mod slow_starts;
mod step;
mod test;
mod tidy;
mod tools;
mod traces;
mod ui_app;
mod ui;
mod windows;
mod workspace;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// The menu of this repository.
#[derive(Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", max_term_width = 100)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Formatting, lints, tidy, licences and sources of dependencies.
    Check,
    /// The rules that no linter knows: crate edges, file heads, sizes, who may name an era.
    Tidy(tidy::Options),
    /// Licences, bans and sources of all dependencies.
    Deny,
    /// All tests of the workspace.
    Test,
    /// The official MCP conformance suite through the gateway, or against any URL.
    Conformance(conformance::Options),
    /// Plays the client in the suite's authorization scenarios; the suite starts it.
    #[command(hide = true)]
    ConformanceClient(conformance::ClientOptions),
    /// The real command-line agents as agents of the gateway, offline.
    Agents,
    /// Real clients and servers of other makers, through the gateway.
    Peers,
    /// Several real gateways as one, over a real nats-server.
    Cluster(cluster::Options),
    /// The search and rewrite tools of the code pack against ripgrep, fd and ast-grep.
    Code,
    /// The code pack with real language servers.
    Lsp,
    /// How well questions find code that no model has seen: a table for each language.
    Search(search::Options),
    /// The metrics under load and with hostile names, checked by promtool.
    Metrics,
    /// One trace from client to upstream, with the Python and TypeScript SDKs as ends.
    Traces,
    /// The guide to writing a tool, followed to the letter in a folder with nothing in it.
    Newcomer,
    /// The recipes of docs/contributing, followed to the letter in a copy of the repository.
    Recipes,
    /// Make the picture of a terminal in the README from the real program.
    Picture(picture::Options),
    /// Checks the table of what Toolyard replaces and the tests that show it (`docs/seeds.md`).
    Seeds(seeds::Options),
    /// Sign-ins with a real authorization server, Chromium as the user, and nginx before the gateway.
    SignIn,
    /// Speed against a bare relay and nginx, interleaved, with every answer checked.
    Bench(bench::Options),
    /// What users install: tarball, Debian package, npm packages and wheel, with the program inside.
    Dist(dist::Options),
    /// Thirty-seven servers that each need 12 s to start; all must come up, each started once.
    SlowStarts,
    /// The notes app, seen and operated through the gateway by a Python client.
    UiApp(ui_app::Options),
    /// The dashboard in Chromium: flows, pictures, accessibility, keys.
    Ui(ui::Options),
    /// Builds for Windows and runs those tests under Wine; needs root, and is not part of `ci`.
    Windows(windows::Options),
    /// Everything that must pass before a change lands; installs what is missing.
    Ci(ci::Options),
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if let Err(error) = process::stop_children_on_signals() {
        eprintln!("error: {error:#}");
        return ExitCode::FAILURE;
    }
    let done = match arguments.command {
        Command::Check => check::check(),
        Command::Tidy(options) => tidy::tidy(&options),
        Command::Deny => deny::deny(),
        Command::Test => test::test(),
        Command::Conformance(options) => conformance::conformance(&options),
        Command::ConformanceClient(options) => conformance::client(&options),
        Command::Agents => agents::agents(),
        Command::Peers => peers::peers(),
        Command::Cluster(options) => cluster::cluster(&options),
        Command::Code => code::code(),
        Command::Lsp => lsp::lsp(),
        Command::Search(options) => search::search(&options),
        Command::Metrics => metrics::metrics(),
        Command::Traces => traces::traces(),
        Command::Newcomer => newcomer::newcomer(),
        Command::Recipes => recipes::recipes(),
        Command::Picture(options) => picture::picture(&options),
        Command::Seeds(options) => seeds::seeds(&options),
        Command::SignIn => sign_in::sign_in(),
        Command::Bench(options) => bench::bench(&options),
        Command::Dist(options) => dist::dist(&options),
        Command::SlowStarts => slow_starts::slow_starts(),
        Command::UiApp(options) => ui_app::ui_app(&options),
        Command::Ui(options) => ui::ui(&options),
        Command::Windows(options) => windows::windows(&options),
        Command::Ci(options) => ci::ci(&options),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
