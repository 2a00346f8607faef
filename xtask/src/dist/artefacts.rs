//! The files that users install, each with the program inside.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};

use crate::{process, workspace};

pub(super) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// What other systems call this machine.
pub(super) struct Machine {
    debian: &'static str,
    pub(super) npm: &'static str,
    wheel: &'static str,
}

pub(super) fn machine() -> Result<Machine> {
    Ok(match std::env::consts::ARCH {
        "x86_64" => {
            Machine { debian: "amd64", npm: "x64", wheel: "manylinux_2_17_x86_64.manylinux2014_x86_64" }
        }
        "aarch64" => {
            Machine { debian: "arm64", npm: "arm64", wheel: "manylinux_2_17_aarch64.manylinux2014_aarch64" }
        }
        other => bail!("there are no package names for {other}: add them in xtask/src/dist/artefacts.rs"),
    })
}

pub(super) struct Artefacts {
    pub(super) tarball: PathBuf,
    pub(super) debian: PathBuf,
    /// The package that users name, and the one with the program.
    pub(super) npm: [PathBuf; 2],
    pub(super) wheel: PathBuf,
    pub(super) checksums: PathBuf,
}

impl Artefacts {
    pub(super) fn files(&self) -> Vec<&PathBuf> {
        let [main, platform] = &self.npm;
        vec![&self.tarball, &self.debian, main, platform, &self.wheel, &self.checksums]
    }
}

/// Makes all of them in an empty `folder`.
pub(super) fn make(program: &Path, folder: &Path) -> Result<Artefacts> {
    if folder.exists() {
        fs::remove_dir_all(folder).context("empty the folder of the last run")?;
    }
    let staging = folder.join("staging");
    fs::create_dir_all(&staging)?;
    place(program, &folder.join("image/toolyard"), 0o755)?;
    let artefacts = Artefacts {
        tarball: tarball(program, &staging, folder)?,
        debian: debian(program, &staging, folder)?,
        npm: npm(program, &staging, folder)?,
        wheel: wheel(program, folder)?,
        checksums: folder.join("SHA256SUMS"),
    };
    fs::remove_dir_all(&staging)?;
    checksums(&artefacts, folder)?;
    Ok(artefacts)
}

/// The tarball without the other files.
pub(super) fn tarball_alone(program: &Path, folder: &Path) -> Result<PathBuf> {
    let staging = folder.join("staging");
    fs::create_dir_all(&staging)?;
    tarball(program, &staging, folder)
}

fn checksums(artefacts: &Artefacts, folder: &Path) -> Result<()> {
    let mut sum = Command::new("sha256sum");
    sum.current_dir(folder);
    for file in artefacts.files().iter().filter(|file| ***file != artefacts.checksums) {
        sum.arg(file.file_name().context("name a file")?);
    }
    fs::write(&artefacts.checksums, process::output(&mut sum)?).context("write the checksums")
}

/// Copies a file to where it belongs, with these rights.
fn place(from: &Path, to: &Path, mode: u32) -> Result<()> {
    fs::create_dir_all(to.parent().context("find the folder of a file")?)?;
    fs::copy(from, to).with_context(|| format!("copy `{}`", from.display()))?;
    fs::set_permissions(to, fs::Permissions::from_mode(mode)).context("set the rights of a file")
}

fn write(to: &Path, text: &str) -> Result<()> {
    fs::create_dir_all(to.parent().context("find the folder of a file")?)?;
    fs::write(to, text).with_context(|| format!("write `{}`", to.display()))
}

/// The files that come with the program everywhere.
fn place_documents(folder: &Path) -> Result<()> {
    for name in ["README.md", "CHANGELOG.md", "LICENSE-MIT", "LICENSE-APACHE"] {
        place(&workspace::root().join(name), &folder.join(name), 0o644)?;
    }
    Ok(())
}

fn tarball(program: &Path, staging: &Path, folder: &Path) -> Result<PathBuf> {
    let name = format!("toolyard-{VERSION}-linux-{}", std::env::consts::ARCH);
    let inside = staging.join(&name);
    place(program, &inside.join("toolyard"), 0o755)?;
    place_documents(&inside)?;
    place_completions(program, &inside.join("completions"), ["toolyard.bash", "_toolyard", "toolyard.fish"])?;
    let file = folder.join(format!("{name}.tar.gz"));
    let mut tar = Command::new("tar");
    tar.args(["--create", "--gzip", "--sort=name", "--owner=0", "--group=0", "--numeric-owner"]);
    process::run(tar.arg("--file").arg(&file).arg("--directory").arg(staging).arg(&name))?;
    Ok(file)
}

/// Completions for bash, zsh and fish, under these names.
fn place_completions(program: &Path, folder: &Path, names: [&str; 3]) -> Result<()> {
    for (shell, name) in ["bash", "zsh", "fish"].into_iter().zip(names) {
        let script = process::output(Command::new(program).args(["completions", shell]))?;
        write(&folder.join(name), &script)?;
    }
    Ok(())
}

fn debian(program: &Path, staging: &Path, folder: &Path) -> Result<PathBuf> {
    let machine = machine()?.debian;
    let root = staging.join("debian");
    place(program, &root.join("usr/bin/toolyard"), 0o755)?;
    let documents = root.join("usr/share/doc/toolyard");
    place_documents(&documents)?;
    write(
        &documents.join("copyright"),
        "Toolyard is licensed under either MIT or Apache-2.0, at your option.\nThe texts are in LICENSE-MIT and LICENSE-APACHE in this folder.\n",
    )?;
    let completions = root.join("usr/share");
    let names = [
        "bash-completion/completions/toolyard",
        "zsh/vendor-completions/_toolyard",
        "fish/vendor_completions.d/toolyard.fish",
    ];
    place_completions(program, &completions, names)?;
    let kilobytes = fs::metadata(program)?.len().div_ceil(1024);
    let control = format!(
        "Package: toolyard\nVersion: {VERSION}\nArchitecture: {machine}\nMaintainer: The Toolyard contributors <toolyard@localhost>\nInstalled-Size: {kilobytes}\nDepends: libc6 (>= 2.17)\nSection: net\nPriority: optional\nDescription: One endpoint for every tool\n Toolyard is a gateway for the Model Context Protocol. Agents connect to it once;\n behind it are any number of MCP servers, apps and built-in tools.\n"
    );
    write(&root.join("DEBIAN/control"), &control)?;
    let file = folder.join(format!("toolyard_{VERSION}_{machine}.deb"));
    let mut build = Command::new("dpkg-deb");
    process::run(build.args(["--build", "--root-owner-group", "-Zxz"]).arg(&root).arg(&file))?;
    Ok(file)
}

/// The package that users name has no program. It depends on one package per machine, of which npm installs the one that
/// fits: nothing is downloaded by a script, so it works without scripts and without a network.
fn npm(program: &Path, staging: &Path, folder: &Path) -> Result<[PathBuf; 2]> {
    let machine = machine()?.npm;
    let platform = format!("toolyard-linux-{machine}");
    let license = "\"license\": \"MIT OR Apache-2.0\"";
    let own = staging.join(&platform);
    place(program, &own.join("bin/toolyard"), 0o755)?;
    write(
        &own.join("package.json"),
        &format!(
            "{{\n  \"name\": \"{platform}\",\n  \"version\": \"{VERSION}\",\n  \"description\": \"The program of the package toolyard, for Linux on {machine}\",\n  {license},\n  \"os\": [\"linux\"],\n  \"cpu\": [\"{machine}\"],\n  \"libc\": [\"glibc\"],\n  \"files\": [\"bin\"]\n}}\n"
        ),
    )?;
    let main = staging.join("toolyard");
    place(&workspace::root().join("xtask/dist/launcher.js"), &main.join("bin/toolyard.js"), 0o755)?;
    place_documents(&main)?;
    write(
        &main.join("package.json"),
        &format!(
            "{{\n  \"name\": \"toolyard\",\n  \"version\": \"{VERSION}\",\n  \"description\": \"One endpoint for every tool: a gateway for the Model Context Protocol\",\n  {license},\n  \"bin\": {{ \"toolyard\": \"bin/toolyard.js\" }},\n  \"engines\": {{ \"node\": \">=18\" }},\n  \"files\": [\"bin\", \"LICENSE-*\"],\n  \"optionalDependencies\": {{ \"{platform}\": \"{VERSION}\" }}\n}}\n"
        ),
    )?;
    for package in [&main, &own] {
        let mut npm = Command::new("npm");
        npm.args(["pack", "--silent", "--ignore-scripts", "--pack-destination"]).arg(folder);
        process::run(npm.current_dir(package)).context("pack for npm (is npm there?)")?;
    }
    Ok([folder.join(format!("toolyard-{VERSION}.tgz")), folder.join(format!("{platform}-{VERSION}.tgz"))])
}

fn wheel(program: &Path, folder: &Path) -> Result<PathBuf> {
    let root = workspace::root();
    let mut python = Command::new("python3");
    python.arg(root.join("xtask/dist/wheel.py")).arg(program).args([VERSION, machine()?.wheel]);
    Ok(process::output(python.arg(root.join("README.md")).arg(folder))?.trim().into())
}
