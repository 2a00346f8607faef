//! `toolyard completions`: prints a completion script for a shell.

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use crate::cli::Cli;
use crate::say;

#[derive(Debug, Args)]
#[command(after_help = "\
Where it goes:
  bash: toolyard completions bash > ~/.local/share/bash-completion/completions/toolyard
  zsh:  toolyard completions zsh > ~/.zfunc/_toolyard      (with ~/.zfunc in $fpath)
  fish: toolyard completions fish > ~/.config/fish/completions/toolyard.fish")]
pub(crate) struct CompletionsArgs {
    /// The shell.
    shell: Shell,
}

pub(super) fn completions(args: &CompletionsArgs) {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut <Cli as CommandFactory>::command(), "toolyard", &mut script);
    say::raw(&script);
}
