//! `toolyard confine --sandbox … PROGRAM ARGS…`: gives up everything that a sandbox does not allow, then becomes the
//! program. A process of its own does this rather than the guard, which must see the processes of its child and
//! signal them. Landlock restricts files; a filter of system calls keeps a child without network from opening any
//! socket, since Landlock knows only TCP.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fmt::Display;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use landlock::{
    ABI, Access, AccessFs, BitFlags, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset, RulesetAttr,
    RulesetCreated, RulesetCreatedAttr, RulesetStatus, Scope,
};
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, apply_filter};

use super::report;
use crate::sandbox::{DEVICES, SYSTEM, Sandbox};

/// The exit code of shells for a program that cannot be run.
const CANNOT_RUN: u8 = 126;
/// Added to a call's number, it selects the x32 variant of the call on `x86_64`: the same call under the same
/// architecture.
const X32: i64 = 0x4000_0000;
/// The first version that keeps a process from truncating files: Linux 6.2.
const NEEDED: ABI = ABI::V3;

/// Whether this kernel can enforce a sandbox; if not, why not.
pub fn sandbox_support() -> Result<(), String> {
    ruleset().map(drop).map_err(|_| {
        "this kernel cannot enforce `sandbox`: it needs Landlock, version 3 (Linux 6.2 or later, with `landlock` among \
         its security modules)"
            .to_owned()
    })
}

/// Confines this process and replaces it by the program; returns only if that failed.
pub(super) fn confine(sandbox: &Sandbox, program: &OsStr, args: &[OsString]) -> ExitCode {
    let error = match enter(sandbox, program) {
        Ok(()) => Command::new(program).args(args).exec().to_string(),
        Err(error) => error,
    };
    report(format_args!("program `{}` could not be started in its sandbox: {error}", program.display()));
    ExitCode::from(CANNOT_RUN)
}

fn enter(sandbox: &Sandbox, program: &OsStr) -> Result<(), String> {
    let (read, all) = (AccessFs::from_read(NEEDED), AccessFs::from_all(NEEDED));
    let mut rules = ruleset().map_err(text)?;
    let given = |path: &&Path| path.exists();
    for path in SYSTEM.iter().map(Path::new).filter(given) {
        rules = allow(rules, path, read)?;
    }
    let device = AccessFs::ReadFile | AccessFs::WriteFile;
    for path in DEVICES.iter().map(Path::new).filter(given) {
        rules = allow(rules, path, device)?;
    }
    for path in found(program) {
        rules = allow(rules, &path, read)?;
    }
    for path in &sandbox.read {
        rules = allow(rules, path, read)?;
    }
    for path in &sandbox.write {
        rules = allow(rules, path, all)?;
    }
    let status = rules.restrict_self().map_err(text)?;
    if status.ruleset == RulesetStatus::NotEnforced {
        return Err("the kernel did not enforce it".to_owned());
    }
    if sandbox.net { Ok(()) } else { without_sockets() }
}

/// Everything about files is required; what newer kernels add beyond that is taken where it is there.
fn ruleset() -> Result<RulesetCreated, landlock::RulesetError> {
    Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_all(NEEDED))?
        .set_compatibility(CompatLevel::BestEffort)
        .scope(Scope::AbstractUnixSocket | Scope::Signal)?
        .create()
}

fn allow(rules: RulesetCreated, path: &Path, access: BitFlags<AccessFs>) -> Result<RulesetCreated, String> {
    let opened = PathFd::new(path).map_err(|_| {
        let why = path.metadata().err().unwrap_or_else(|| io::Error::other("it cannot be opened"));
        format!("`{}`: {why}", path.display())
    })?;
    let access = if path.is_dir() { access } else { access & AccessFs::from_file(NEEDED) };
    rules.add_rule(PathBeneath::new(opened, access)).map_err(text)
}

/// The program's file, found as the system finds it, and what it is a link to.
fn found(program: &OsStr) -> Vec<PathBuf> {
    let candidates: Vec<PathBuf> = match Path::new(program).components().count() {
        1 => env::split_paths(&env::var_os("PATH").unwrap_or_default())
            .map(|folder| folder.join(program))
            .collect(),
        _ => vec![program.into()],
    };
    let Some(path) = candidates.into_iter().find(|path| path.is_file()) else { return Vec::new() };
    let target = path.canonicalize().ok();
    [path].into_iter().chain(target).collect()
}

/// No socket of any family can be opened, and no other way to open one is left. Pairs of connected sockets, which
/// lead nowhere else, still can be.
fn without_sockets() -> Result<(), String> {
    let calls = [libc::SYS_socket, libc::SYS_io_uring_setup];
    let variants: &[i64] = if env::consts::ARCH == "x86_64" { &[0, X32] } else { &[0] };
    let rules = calls.into_iter().flat_map(|call| variants.iter().map(move |bit| (call | bit, Vec::new())));
    let rules = rules.collect();
    let refuse = SeccompAction::Errno(libc::EACCES.unsigned_abs());
    let architecture = env::consts::ARCH.try_into().map_err(text)?;
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, refuse, architecture).map_err(text)?;
    let program: BpfProgram = filter.try_into().map_err(text)?;
    apply_filter(&program).map_err(text)
}

fn text(error: impl Display) -> String {
    error.to_string()
}
