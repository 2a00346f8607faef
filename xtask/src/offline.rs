//! Runs a program in a network namespace of its own, in which there is only the loopback interface.

use std::process::Command;

use crate::process;

/// Brings up the loopback interface, checks that nothing else is there, and runs a program.
const ENTER: &str = r#"ip link set lo up; test -z "$(ip route)"; exec "$@""#;
/// With a user namespace, which needs no rights, and without, which needs those of root.
const FLAGS: [&str; 2] = ["-rn", "-n"];

/// The same command in a namespace of its own; without a warning only where one can be made.
pub(crate) fn if_possible(command: Command) -> Command {
    if let Some(flags) = FLAGS.into_iter().find(|flags| can_enter(flags)) {
        return within(&command, flags);
    }
    eprintln!("no network namespace can be made here: the programs could reach the network");
    command
}

fn can_enter(flags: &str) -> bool {
    let mut probe = Command::new("unshare");
    let probe = process::capture(probe.args([flags, "ip", "link", "set", "lo", "up"]));
    probe.is_ok_and(|probe| probe.status.success())
}

fn within(command: &Command, flags: &str) -> Command {
    let mut unshare = Command::new("unshare");
    unshare.args([flags, "sh", "-e", "-c", ENTER, "sh"]).arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => unshare.env(name, value),
            None => unshare.env_remove(name),
        };
    }
    if let Some(folder) = command.get_current_dir() {
        unshare.current_dir(folder);
    }
    unshare
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_keeps_its_arguments_variables_and_folder() {
        let mut command = Command::new("npm");
        command.args(["install", "a b"]).env("HOME", "/home/you").env_remove("TOKEN").current_dir("/srv");
        let offline = within(&command, "-rn");
        let arguments: Vec<_> = offline.get_args().collect();
        assert_eq!(arguments[arguments.len() - 3..], ["npm", "install", "a b"]);
        assert_eq!(offline.get_program(), "unshare");
        assert!(offline.get_envs().eq(command.get_envs()));
        assert_eq!(offline.get_current_dir(), command.get_current_dir());
    }
}
