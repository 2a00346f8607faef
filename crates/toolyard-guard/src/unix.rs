//! `toolyard guard GATEWAY PROGRAM ARGS…`: runs one child of the gateway and ends everything the child ever
//! started, however the gateway or the child dies. Not for people: the gateway writes this command line.
//!
//! A guard is decided on before anything else of the program is set up, because there is one per child: no
//! runtime, no logging, no parsing of arguments. Why it is built this way is in docs/design/child-guards.md.

#[cfg(all(target_os = "linux", feature = "sandbox"))]
mod confine;
#[cfg(target_os = "linux")]
mod start;
#[cfg(target_os = "linux")]
mod watch;
mod record;
pub mod processes;

use std::ffi::OsString;
use std::fmt::Display;
use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;

use crate::Guard;
use crate::sandbox::{self, Sandbox};
#[cfg(all(target_os = "linux", feature = "sandbox"))]
pub use confine::sandbox_support;
use record::Record;

/// Whether a sandbox can be enforced here.
#[cfg(not(all(target_os = "linux", feature = "sandbox")))]
pub fn sandbox_support() -> Result<(), String> {
    Err("`sandbox` needs Linux".to_owned())
}

const COMMAND: &str = "guard";
/// Runs a program in a sandbox; only a guard writes this command line.
const CONFINE: &str = "confine";
/// The program that runs right now, even if the file it came from has been replaced since.
const OWN_PROGRAM: &str = "/proc/self/exe";

/// The arguments of a guard.
struct Order {
    /// The process to end with.
    gateway: i32,
    sandbox: Option<Sandbox>,
    program: OsString,
    args: Vec<OsString>,
}

/// Guards, if that is what the program was started for.
pub fn run(arguments: impl Iterator<Item = OsString>) -> Option<ExitCode> {
    let mut arguments = arguments.skip(1);
    let word = arguments.next()?;
    if word == CONFINE {
        return Some(confine(arguments));
    }
    (word == COMMAND).then_some(())?;
    Some(match parse(arguments) {
        #[cfg(target_os = "linux")]
        Some(order) => start::start(&order),
        _ => {
            report(
                "error: `toolyard guard` is only for the gateway, which runs its children under it on Linux",
            );
            ExitCode::from(2)
        }
    })
}

fn parse(mut arguments: impl Iterator<Item = OsString>) -> Option<Order> {
    let gateway = arguments.next()?.to_str()?.parse().ok()?;
    let (sandbox, program) = sandbox_and_program(&mut arguments)?;
    Some(Order { gateway, sandbox, program, args: arguments.collect() })
}

fn sandbox_and_program(
    arguments: &mut impl Iterator<Item = OsString>,
) -> Option<(Option<Sandbox>, OsString)> {
    let first = arguments.next()?;
    if first != sandbox::FLAG {
        return Some((None, first));
    }
    Some((Some(Sandbox::from_args(arguments)?), arguments.next()?))
}

/// Becomes a program in its sandbox.
fn confine(mut arguments: impl Iterator<Item = OsString>) -> ExitCode {
    #[cfg(all(target_os = "linux", feature = "sandbox"))]
    if let Some((Some(sandbox), program)) = sandbox_and_program(&mut arguments) {
        return confine::confine(&sandbox, &program, &arguments.collect::<Vec<_>>());
    }
    let _ = arguments.next();
    report("error: `toolyard confine` is what a guard runs programs in a sandbox with, on Linux");
    ExitCode::from(2)
}

/// The gateway's side: how its children are guarded while it runs.
#[derive(Debug)]
pub struct Guards {
    record: Option<Record>,
}

impl Guards {
    /// Ends what an earlier gateway of this state directory left behind, and takes over.
    pub fn begin(state_dir: Option<&Path>) -> Self {
        if !can_guard() {
            tracing::debug!("no guards here: a child's process group is ended, and no more");
            return Self { record: None };
        }
        adopt_orphans();
        Self { record: Record::begin(state_dir) }
    }

    /// The guard for children, where the system supports guards.
    pub fn guard(&self) -> Option<Guard> {
        can_guard().then(|| Guard {
            program: OWN_PROGRAM.into(),
            title: "toolyard".into(),
            args: vec![COMMAND.into(), std::process::id().to_string().into()],
            env: self.record.iter().map(|record| (record.mark().into(), "1".into())).collect(),
        })
    }
}

/// Whatever is left behind below this process comes to it, and is ended with the guard that left it. The
/// process must start children through links only from here on. Without effect where the system cannot.
fn adopt_orphans() {
    #[cfg(target_os = "linux")]
    if let Err(error) = nix::sys::prctl::set_child_subreaper(true) {
        tracing::warn!(%error, "what a killed guard leaves behind cannot be ended");
    }
}

/// A line on stderr, which no more can be done about if it cannot be written.
fn report(text: impl Display) {
    let _ = writeln!(std::io::stderr(), "{text}");
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
        check(&["7", "--sandbox", "net", "1", "read", "/usr", "sh", "-c"], Some((7, "sh", 1)));
        check(&["7", "--sandbox", "1", "read", "/usr", "sh", "-c"], None);
        check(&["sh", "-c"], None);
        check(&[], None);
    }

    #[test]
    fn only_the_command_guard_makes_a_guard() {
        assert!(run(["toolyard", "serve"].into_iter().map(OsString::from)).is_none());
        assert!(run(["toolyard"].into_iter().map(OsString::from)).is_none());
    }
}
