//! How a guard begins and ends: it takes its place, starts the child, and in the end dies as the child did.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use nix::sys::prctl;
use nix::sys::signal::{Signal, raise};
use nix::sys::wait::WaitStatus;
use nix::unistd::{Pid, dup2_stderr, dup2_stdin, dup2_stdout, getppid};
use rustix::process::{PidfdFlags, pidfd_open};
use signal_hook::low_level::emulate_default_handler;

use super::watch::{Gateway, News, Watch};
use super::{CONFINE, OWN_PROGRAM, Order, report};

/// The exit codes of shells for a program that does not exist, or cannot be run.
const NOT_FOUND: u8 = 127;
const CANNOT_RUN: u8 = 126;

pub(super) fn start(order: &Order) -> ExitCode {
    let (gateway, news) = match take_place(order) {
        Ok(Some(place)) => place,
        Ok(None) => return ExitCode::SUCCESS,
        Err(error) => {
            report(format_args!("the guard cannot do its work: {error}"));
            return ExitCode::from(CANNOT_RUN);
        }
    };
    let child = match start_child(order) {
        Ok(child) => child,
        Err(error) => {
            let program = order.program.to_string_lossy();
            report(format_args!("program `{program}` could not be started: {error}"));
            let is_missing = error.kind() == io::ErrorKind::NotFound;
            return ExitCode::from(if is_missing { NOT_FOUND } else { CANNOT_RUN });
        }
    };
    end_like(Watch::new(child, gateway, news).run())
}

/// From here on no descendant can escape, and no event is missed. `None` if the gateway has already ended.
fn take_place(order: &Order) -> io::Result<Option<(Gateway, News)>> {
    prctl::set_name(c"toolyard-guard")?;
    prctl::set_child_subreaper(true)?;
    let news = News::listen()?;
    // The handle first: if its process is our parent after that, it is the gateway.
    let gateway = Gateway { id: Pid::from_raw(order.gateway), handle: handle(order.gateway) };
    Ok((getppid() == gateway.id).then_some((gateway, news)))
}

fn handle(process: i32) -> Option<OwnedFd> {
    pidfd_open(rustix::process::Pid::from_raw(process)?, PidfdFlags::empty()).ok()
}

/// Starts the child in a group of its own, so that a signal to its group does not reach us. Only the child keeps our
/// stdin, stdout and stderr: its end must be seen at the other end of each.
fn start_child(order: &Order) -> io::Result<Pid> {
    let child = command(order).args(&order.args).process_group(0).spawn()?;
    let nowhere = File::options().read(true).write(true).open("/dev/null")?;
    dup2_stdin(&nowhere)?;
    dup2_stdout(&nowhere)?;
    dup2_stderr(&nowhere)?;
    i32::try_from(child.id()).map(Pid::from_raw).map_err(io::Error::other)
}

/// The program itself, or what becomes it once it is confined.
fn command(order: &Order) -> Command {
    let Some(sandbox) = &order.sandbox else { return Command::new(&order.program) };
    let mut command = Command::new(OWN_PROGRAM);
    command.arg0("toolyard").arg(CONFINE).args(sandbox.to_args()).arg(&order.program);
    command
}

/// Ends this process like the child: by the same exit code, or by the same signal but without a core dump.
fn end_like(child: Option<WaitStatus>) -> ExitCode {
    match child {
        Some(WaitStatus::Exited(_, code)) => ExitCode::from(code.to_le_bytes()[0]),
        Some(WaitStatus::Signaled(_, signal, _)) => {
            let _ = prctl::set_dumpable(false);
            end_by(signal);
            ExitCode::from(128 + (signal as i32).to_le_bytes()[0])
        }
        _ => ExitCode::FAILURE,
    }
}

fn end_by(signal: Signal) {
    if emulate_default_handler(signal as i32).is_err() {
        // The first may meet the handler that Rust has for stack overflows; it steps aside for the second.
        let _ = raise(signal);
        let _ = raise(signal);
    }
}
