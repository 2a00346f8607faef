//! `toolyard completions`: what a shell needs to complete this command line. The script asks this program, which knows
//! the servers of the config and their tools.

mod candidates;

use clap::{Args, CommandFactory};
use clap_complete::env::{CompleteEnv, Shells};

use crate::cli::{self, Cli};
use crate::failure::Failure;
use crate::say;

pub(crate) use candidates::{parameters, profiles, servers, tools};

/// Set by the script of a shell when it asks for completions.
const VARIABLE: &str = "TOOLYARD_COMPLETE";

#[derive(Debug, Args)]
#[command(after_help = "\
Where it goes:
  bash: toolyard completions bash > ~/.local/share/bash-completion/completions/toolyard
  zsh:  toolyard completions zsh > ~/.zfunc/_toolyard      (with ~/.zfunc in $fpath)
  fish: toolyard completions fish > ~/.config/fish/completions/toolyard.fish")]
pub(crate) struct CompletionsArgs {
    /// The shell.
    #[arg(value_parser = ["bash", "elvish", "fish", "powershell", "zsh"])]
    shell: String,
}

pub(super) fn completions(args: &CompletionsArgs) -> Result<(), Failure> {
    let shells = Shells::builtins();
    let Some(shell) = shells.completer(&args.shell) else {
        return Err(Failure::Usage(format!("there are no completions for `{}`", args.shell)));
    };
    let mut script = Vec::new();
    shell.write_registration(VARIABLE, "toolyard", "toolyard", "toolyard", &mut script)?;
    say::raw(&script);
    Ok(())
}

/// Answers the script of a shell, if it is what has started this program. Returns whether it was.
pub(crate) fn answer_shell() -> bool {
    let here = std::env::current_dir().ok();
    let completing = CompleteEnv::with_factory(<Cli as CommandFactory>::command).var(VARIABLE);
    let is_done = completing.try_complete(std::env::args_os(), here.as_deref());
    is_done.unwrap_or_else(|error| cli::explained(error, std::env::args_os()).exit())
}
