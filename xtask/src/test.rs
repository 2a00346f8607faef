//! `cargo xtask test`: all tests of the workspace, examples in the documentation included.
//!
//! Tests that need more than a build are marked `#[ignore]` with the reason, so that a run without it does not report
//! them as passed. Those that need rights of the system run here if this process has them, and are counted as left
//! out otherwise; those that need clients and servers of other vendors run in `cargo xtask peers`.

use std::process::Command;

use anyhow::Result;

use crate::{process, tools, workspace};

/// A right or a part of the system that some tests need.
struct Right {
    name: &'static str,
    /// Succeeds if this process has the right.
    probe: &'static [&'static str],
    /// Programs with the Debian packages that bring them, to be installed by root before the probe.
    packages: &'static [(&'static str, &'static str)],
    /// The test target and the module of the tests that need it.
    target: &'static str,
    module: &'static str,
}

const RIGHTS: &[Right] = &[
    Right {
        name: "root",
        probe: &["test", "-w", "/etc/passwd"],
        packages: &[],
        target: "apps",
        module: "other_users::",
    },
    Right {
        name: "network namespaces",
        probe: &["unshare", "-rn", "ip", "link", "set", "lo", "up"],
        packages: &[],
        target: "apps",
        module: "offline::",
    },
    Right {
        name: "mount namespaces",
        probe: &["unshare", "-rm", "true"],
        packages: &[],
        target: "music",
        module: "two_file_systems::",
    },
    Right {
        name: "dbus, gnome-keyring and libsecret-tools",
        probe: &[
            "sh",
            "-c",
            "command -v dbus-run-session && command -v gnome-keyring-daemon && command -v secret-tool",
        ],
        packages: &[
            ("dbus-run-session", "dbus"),
            ("gnome-keyring-daemon", "gnome-keyring"),
            ("secret-tool", "libsecret-tools"),
        ],
        target: "life",
        module: "keyring::",
    },
    Right {
        name: "systemd-analyze",
        probe: &["sh", "-c", "command -v systemd-analyze"],
        packages: &[("systemd-analyze", "systemd")],
        target: "cli",
        module: "systemd::",
    },
];

pub(crate) fn test() -> Result<()> {
    // The tests of the music pack make their own audio and compare fingerprints.
    tools::debian("ffmpeg")?;
    tools::debian_package("fpcalc", "libchromaprint-tools")?;
    if process::find("cargo-nextest").is_none() {
        process::run(workspace::cargo().args(["test", "--workspace"]))?;
    } else {
        process::run(workspace::cargo().args(["nextest", "run", "--workspace", "--profile", "all"]))?;
        // nextest does not run the examples in documentation.
        process::run(workspace::cargo().args(["test", "--workspace", "--doc", "--quiet"]))?;
    }
    RIGHTS.iter().try_for_each(run_with)
}

fn run_with(right: &Right) -> Result<()> {
    install(right);
    let mut probe = Command::new(right.probe[0]);
    if !process::capture(probe.args(&right.probe[1..])).is_ok_and(|output| output.status.success()) {
        eprintln!("left out: the tests in `{}` of `{}` need {}", right.module, right.target, right.name);
        return Ok(());
    }
    let mut cargo = workspace::cargo();
    cargo.args(["test", "--package", "toolyard", "--test", right.target, "--", "--ignored", right.module]);
    process::run(&mut cargo)
}

/// Only root can install packages, and only where there is `apt-get`; without them the tests are left out.
fn install(right: &Right) {
    let is_root = process::capture(Command::new("id").arg("-u")).is_ok_and(|output| output.stdout == b"0\n");
    for (program, package) in right.packages.iter().filter(|_| is_root) {
        if let Err(error) = tools::debian_package(program, package) {
            eprintln!("cannot install {package}: {error:#}");
        }
    }
}
