//! `toolyard guard GATEWAY PROGRAM ARGS…`: runs one child of the gateway and ends everything the child ever
//! started, however the gateway or the child dies. Not for people: the gateway writes this command line.
//!
//! A guard is decided on before anything else of the program is set up, because there is one per child: no
//! runtime, no logging, no parsing of arguments. Why it is built this way is in docs/design/child-guards.md.

#[cfg(target_os = "linux")]
mod start;
#[cfg(target_os = "linux")]
mod watch;
mod record;

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use toolyard_link::child::{self, Guard};

use crate::say;
use record::Record;

const COMMAND: &str = "guard";
/// The program that runs right now, even if the file it came from has been replaced since.
const OWN_PROGRAM: &str = "/proc/self/exe";

/// What a guard is told to do.
struct Order {
    /// The process to end with.
    gateway: i32,
    program: OsString,
    args: Vec<OsString>,
}

/// Guards, if that is what the program was started for.
pub(crate) fn run(arguments: impl Iterator<Item = OsString>) -> Option<ExitCode> {
    let mut arguments = arguments.skip(1);
    arguments.next().filter(|word| word == COMMAND)?;
    Some(match parse(arguments) {
        #[cfg(target_os = "linux")]
        Some(order) => start::start(&order),
        _ => {
            say::line("error: `toolyard guard` is what the gateway runs its children under, on Linux");
            ExitCode::from(2)
        }
    })
}

fn parse(mut arguments: impl Iterator<Item = OsString>) -> Option<Order> {
    let gateway = arguments.next()?.to_str()?.parse().ok()?;
    Some(Order { gateway, program: arguments.next()?, args: arguments.collect() })
}

/// The gateway's side: how its children are guarded while it runs.
#[derive(Debug)]
pub(crate) struct Guards {
    record: Option<Record>,
}

impl Guards {
    /// Ends what an earlier gateway of this state directory left behind, and takes over.
    pub(crate) fn begin(state_dir: Option<&Path>) -> Self {
        if !can_guard() {
            tracing::debug!("no guards here: a child's process group is ended, and no more");
            return Self { record: None };
        }
        child::adopt_orphans();
        Self { record: Record::begin(state_dir) }
    }

    /// What to run children under, where the system allows it.
    pub(crate) fn guard(&self) -> Option<Guard> {
        can_guard().then(|| Guard {
            program: OWN_PROGRAM.into(),
            title: "toolyard".into(),
            args: vec![COMMAND.into(), std::process::id().to_string().into()],
            env: self.record.iter().map(|record| (record.mark().into(), "1".into())).collect(),
        })
    }
}

fn can_guard() -> bool {
    cfg!(target_os = "linux") && Path::new(OWN_PROGRAM).exists()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(arguments: &[&str], expected: Option<(i32, &str, usize)>) {
        let order = parse(arguments.iter().map(OsString::from));
        let got =
            order.as_ref().and_then(|order| Some((order.gateway, order.program.to_str()?, order.args.len())));
        assert_eq!(got, expected, "{arguments:?}");
    }

    #[test]
    fn an_order_names_the_gateway_and_the_command() {
        check(&["7", "sh", "-c", "true"], Some((7, "sh", 2)));
        check(&["7", "--version"], Some((7, "--version", 0)));
        check(&["7"], None);
        check(&["sh", "-c"], None);
        check(&[], None);
    }

    #[test]
    fn only_the_command_guard_makes_a_guard() {
        assert!(run(["toolyard", "serve"].into_iter().map(OsString::from)).is_none());
        assert!(run(["toolyard"].into_iter().map(OsString::from)).is_none());
    }
}
