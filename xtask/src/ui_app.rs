//! `cargo xtask ui-app`: the notes app, seen and operated through the gateway by the official Python SDK.
//!
//! Without a display, or with `--window` in a real window on a virtual screen, and then the same program again without
//! a display. Fails if a waiting agent learns of a change late. Prints how long each tool takes; with `--release` it
//! fails if that is too long. `--guide` writes the picture of the guide.

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result};

use crate::step::step;
use crate::workspace::Profile;
use crate::{process, tools, workspace};

#[derive(clap::Args, Default)]
pub(crate) struct Options {
    /// Open a real window on a virtual screen (installs Xvfb and a software renderer; needs root).
    #[arg(long)]
    window: bool,
    /// Build with optimisations, so that the times count.
    #[arg(long)]
    release: bool,
    /// How often to repeat the walk that is timed [default: 5, with --release 40].
    #[arg(long)]
    repeats: Option<u32>,
    /// Keep the pictures in this folder.
    #[arg(long)]
    pictures: Option<std::path::PathBuf>,
    /// Write the picture of the guide, `docs/pictures/notes-app.png`, too.
    #[arg(long, conflicts_with = "window")]
    guide: bool,
}

impl Options {
    pub(crate) fn in_a_window() -> Self {
        Self { window: true, ..Self::default() }
    }
}

pub(crate) fn ui_app(options: &Options) -> Result<()> {
    let python = step("install the Python peers", tools::python)?;
    let profile = if options.release { Profile::Release } else { Profile::Dev };
    let toolyard = workspace::build("toolyard", profile)?.join("toolyard");
    let app = if options.window {
        build_with_window(options)?
    } else {
        workspace::build("notes-app", profile)?.join("notes-app")
    };
    if options.window {
        let mut screen = virtual_screen()?;
        screen.arg(&python);
        drive(options, screen, &toolyard, &app, "xtask/ui-app/window.png")?;
    }
    let mut alone = Command::new(&python);
    alone.env_remove("DISPLAY").env_remove("WAYLAND_DISPLAY");
    drive(options, alone, &toolyard, &app, "examples/notes-app/tests/expected.png")
}

/// Operates the app with a command that runs Python.
fn drive(options: &Options, mut python: Command, toolyard: &Path, app: &Path, expected: &str) -> Result<()> {
    let home = tempfile::tempdir().context("make a folder for the gateway")?;
    let pictures = options.pictures.clone().unwrap_or_else(|| home.path().to_owned());
    python.arg(workspace::root().join("xtask/ui-app/drive.py")).arg(toolyard).arg(app);
    // A p95 of a few calls is the slowest of them.
    let repeats = options.repeats.unwrap_or(if options.release { 40 } else { 5 });
    python.arg(&pictures).arg(repeats.to_string()).arg(workspace::root().join(expected));
    if options.release {
        python.arg("--limits");
    }
    process::run(in_home(&mut python, home.path()))?;
    if options.guide {
        let picture = workspace::root().join("docs/pictures/notes-app.png");
        std::fs::copy(pictures.join("added.png"), picture).context("write `docs/pictures/notes-app.png`")?;
    }
    Ok(())
}

/// Builds the app with a window and returns its program.
fn build_with_window(options: &Options) -> Result<std::path::PathBuf> {
    let target = workspace::target_directory()?.join("notes-window");
    let mut cargo = workspace::cargo();
    cargo.args(["build", "--manifest-path"]).arg(workspace::root().join("examples/notes-window/Cargo.toml"));
    cargo.arg("--target-dir").arg(&target);
    if options.release {
        cargo.arg("--release");
    }
    process::run(&mut cargo)?;
    Ok(target.join(if options.release { "release" } else { "debug" }).join("notes-window"))
}

/// A screen in memory, with a renderer that needs no graphics card.
fn virtual_screen() -> Result<Command> {
    let program = tools::debian_package("xvfb-run", "xvfb")?;
    for package in
        ["xauth", "libgl1-mesa-dri", "libgl1", "libegl1", "libxkbcommon-x11-0", "libxcursor1", "libxi6"]
    {
        if !process::capture(Command::new("dpkg").args(["-s", package]))
            .is_ok_and(|output| output.status.success())
        {
            process::run(Command::new("apt-get").args([
                "install",
                "--yes",
                "--no-install-recommends",
                package,
            ]))?;
        }
    }
    let mut command = Command::new(program);
    command.args(["-a", "-s", "-screen 0 1024x768x24"]).env("LIBGL_ALWAYS_SOFTWARE", "1");
    Ok(command)
}

/// Gateway and app find each other in a home of their own.
fn in_home<'a>(command: &'a mut Command, home: &Path) -> &'a mut Command {
    for (name, folder) in [
        ("XDG_CONFIG_HOME", "config"),
        ("XDG_STATE_HOME", "state"),
        ("XDG_CACHE_HOME", "cache"),
        ("XDG_DATA_HOME", "data"),
        ("XDG_RUNTIME_DIR", "runtime"),
    ] {
        let folder = home.join(folder);
        // The gateway checks that other users cannot enter it.
        let _ = std::fs::create_dir(&folder);
        let _ = std::fs::set_permissions(&folder, std::os::unix::fs::PermissionsExt::from_mode(0o700));
        command.env(name, folder);
    }
    command.env("HOME", home)
}
