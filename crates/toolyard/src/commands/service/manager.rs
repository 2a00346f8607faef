//! Commands for the service manager of the system: systemd of this user, or launchd.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, anyhow};
use toolyard_config::system::config_folder;

use super::Kind;
use super::definition::{Service, label};
use crate::failure::{Failure, refused};
use crate::{say, settings};

pub(super) struct Manager {
    pub(super) kind: Kind,
    /// The name of the service.
    pub(super) name: String,
}

impl Manager {
    pub(super) fn text(&self, service: &Service) -> String {
        match self.kind {
            Kind::Systemd => service.systemd(),
            Kind::Launchd => service.launchd(),
        }
    }

    /// The path of the service's definition.
    pub(super) fn file(&self) -> Result<PathBuf, Failure> {
        let nowhere = || refused("HOME is not set", "set it to your home folder");
        match self.kind {
            Kind::Systemd => {
                let folder = config_folder(&settings::variable).ok_or_else(nowhere)?;
                Ok(folder.join("systemd/user").join(self.unit()))
            }
            Kind::Launchd => {
                let home = settings::variable("HOME").ok_or_else(nowhere)?;
                Ok(PathBuf::from(home)
                    .join("Library/LaunchAgents")
                    .join(format!("{}.plist", label(&self.name))))
            }
        }
    }

    fn unit(&self) -> String {
        format!("{}.service", self.name)
    }

    /// Lets systemd check the unit, where the program for that exists.
    pub(super) fn check(&self, text: &str) -> Result<(), Failure> {
        if self.kind != Kind::Systemd || !is_there("systemd-analyze") {
            return Ok(());
        }
        let folder = CheckFolder::new()?;
        let path = folder.0.join(self.unit());
        std::fs::write(&path, text).with_context(|| format!("write {}", path.display()))?;
        let mut command = Command::new("systemd-analyze");
        command.args(["--user", "verify"]).arg(&path);
        if settings::variable("XDG_RUNTIME_DIR").is_none() {
            command.env("XDG_RUNTIME_DIR", &folder.0);
        }
        let Ok(checked) = command.stdin(Stdio::null()).output() else { return Ok(()) };
        let output = String::from_utf8_lossy(&checked.stderr);
        let about_us: Vec<&str> = output.lines().filter(|line| line.contains(&self.unit())).collect();
        if !checked.status.success() && !about_us.is_empty() {
            return Err(anyhow!("systemd does not accept the unit: {}", about_us.join("; ")).into());
        }
        for line in about_us {
            say::line(format_args!("warning: systemd: {line}"));
        }
        Ok(())
    }

    /// How a user starts the service.
    pub(super) fn start_line(&self) -> String {
        match self.kind {
            Kind::Systemd => format!("systemctl --user enable --now {}", self.unit()),
            Kind::Launchd => format!("launchctl load -w ~/Library/LaunchAgents/{}.plist", label(&self.name)),
        }
    }

    /// Starts the service, or restarts it if it was installed before, so that it uses the current definition.
    pub(super) fn start(&self, was_installed: bool) -> Result<(), Failure> {
        let unit = self.unit();
        match self.kind {
            Kind::Systemd => {
                self.run("systemctl", &["--user", "daemon-reload"])?;
                self.run("systemctl", &["--user", "enable", &unit])?;
                let verb = if was_installed { "restart" } else { "start" };
                self.run("systemctl", &["--user", verb, &unit])
            }
            Kind::Launchd => {
                let file = self.file()?.display().to_string();
                if was_installed {
                    let _ = self.run("launchctl", &["unload", "-w", &file]);
                }
                self.run("launchctl", &["load", "-w", &file])
            }
        }
    }

    /// Stops the service; if it does not run, the file is removed nevertheless.
    pub(super) fn stop(&self) {
        let stopped = match self.kind {
            Kind::Systemd => self.run("systemctl", &["--user", "disable", "--now", &self.unit()]),
            Kind::Launchd => self
                .file()
                .and_then(|file| self.run("launchctl", &["unload", "-w", &file.display().to_string()])),
        };
        if let Err(Failure::Refused(problem)) = stopped {
            say::line(problem);
        }
    }

    /// Makes the manager notice that the file is gone.
    pub(super) fn forget(&self) {
        if self.kind == Kind::Systemd {
            let _ = self.run("systemctl", &["--user", "daemon-reload"]);
        }
    }

    /// The status, in the words of the manager.
    pub(super) fn state(&self) -> String {
        let asked = match self.kind {
            Kind::Systemd => output("systemctl", &["--user", "is-active", &self.unit()]),
            Kind::Launchd => output("launchctl", &["list", &label(&self.name)])
                .map(|text| if text.contains("\"PID\"") { "active".into() } else { "inactive".into() }),
        };
        asked.filter(|state: &String| !state.is_empty()).unwrap_or_else(|| "unknown".to_owned())
    }

    fn run(&self, program: &str, args: &[&str]) -> Result<(), Failure> {
        let line = format!("{program} {}", args.join(" "));
        let help = format!("run it yourself once it works here, or: {}", self.start_line());
        let output = match Command::new(program).args(args).stdin(Stdio::null()).output() {
            Ok(output) => output,
            Err(error) => return Err(refused(format!("cannot run `{line}`: {error}"), help)),
        };
        if output.status.success() {
            return Ok(());
        }
        let errors = String::from_utf8_lossy(&output.stderr);
        let why = errors.trim().lines().next().unwrap_or("it gave no reason");
        Err(refused(format!("`{line}` failed: {why}"), help))
    }
}

/// The output of a program, on one line, whether it succeeds or not.
fn output(program: &str, args: &[&str]) -> Option<String> {
    let output = Command::new(program).args(args).stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
    Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

fn is_there(program: &str) -> bool {
    let path = settings::variable("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

/// A folder for the duration of the check.
struct CheckFolder(PathBuf);

impl CheckFolder {
    fn new() -> Result<Self, Failure> {
        let path = std::env::temp_dir().join(format!("toolyard-service-{}", std::process::id()));
        std::fs::create_dir(&path).with_context(|| format!("create {}", path.display()))?;
        Ok(Self(path))
    }
}

impl Drop for CheckFolder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
