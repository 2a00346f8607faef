//! `cargo xtask windows`: builds for Windows and runs the tests of its parts under Wine, on a Linux machine.
//!
//! It needs a standard library for Windows, a linker and Wine. All of them are packages of Debian, so a small
//! Debian is unpacked into a folder once, and everything runs in there: nothing is installed on the machine.
//! That takes root, for `debootstrap` and `chroot`, and 5 GB. Not part of `ci`, because it takes many minutes.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};

use crate::step::step;
use crate::{process, workspace};

const TARGET: &str = "x86_64-pc-windows-gnu";
const PACKAGES: &str = "rustc cargo rust-src gcc gcc-mingw-w64-x86-64-win32 libc6-dev wine wine64";
/// Written last, so that a system that was not finished is finished by the next run.
const READY: &str = "toolyard-ready";
const CERTIFICATES: &str = "etc/ssl/certs/ca-certificates.crt";

/// What is checked, in order; a name and the arguments for cargo.
const STEPS: [(&str, &str); 5] = [
    ("check the endpoint and the links", "check -p toolyard-serve -p toolyard-link"),
    ("check the core", "check -p toolyard-core"),
    ("check the program and the SDK", "check -p toolyard -p toolyard-tool -p toolyard-app"),
    (
        "pipes, jobs and the other unit tests",
        "test -p toolyard-model -p toolyard-serve -p toolyard-link --lib",
    ),
    ("the program", "test -p toolyard --test windows"),
];

#[derive(clap::Args)]
pub(crate) struct Options {
    /// Where the Debian is that this runs in; made if it is not there [default: toolyard-windows in your
    /// cache folder].
    #[arg(long, env = "TOOLYARD_WINDOWS_ROOT", value_name = "FOLDER")]
    root: Option<PathBuf>,
}

pub(crate) fn windows(options: &Options) -> Result<()> {
    let root = options.root.clone().map_or_else(usual_root, Ok)?;
    if !root.join(READY).exists() {
        step("set up a Debian with Rust, a linker and Wine", || set_up(&root))?;
    }
    let system = System { root, target: workspace::target_directory()?.join("windows") };
    step("start Wine", || system.run("wineboot -i"))?;
    let cargo = |arguments: &str| format!("cargo {arguments}");
    let outcomes = STEPS.map(|(name, arguments)| (name, step(name, || system.run(&cargo(arguments)))));
    for (name, outcome) in &outcomes {
        println!("{} {name}", if outcome.is_ok() { "pass" } else { "FAIL" });
    }
    let failed = outcomes.iter().filter(|(_, outcome)| outcome.is_err()).count();
    if failed > 0 {
        bail!("{failed} of {} failed", outcomes.len());
    }
    Ok(())
}

fn usual_root() -> Result<PathBuf> {
    let set = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let cache = set("XDG_CACHE_HOME").or_else(|| set("HOME").map(|home| home.join(".cache")));
    Ok(cache.context("neither XDG_CACHE_HOME nor HOME is set: use --root")?.join("toolyard-windows"))
}

/// Each part can be done again, so one that failed is simply repeated.
fn set_up(root: &Path) -> Result<()> {
    if process::find("debootstrap").is_none() {
        bail!("install the package debootstrap");
    }
    if !root.join("usr/bin/apt-get").exists() {
        fs::create_dir_all(root).with_context(|| format!("make {}", root.display()))?;
        let mut debootstrap = Command::new("debootstrap");
        debootstrap.args(["--variant=minbase", "--include=ca-certificates", "sid"]);
        process::run(debootstrap.arg(root))?;
    }
    // Certificates and name resolution of this machine.
    for file in [CERTIFICATES, "etc/resolv.conf"] {
        fs::copy(Path::new("/").join(file), root.join(file)).with_context(|| format!("copy /{file}"))?;
    }
    let mut chroot = Command::new("chroot");
    process::run(chroot.arg(root).args(["sh", "-e", "-c", &set_up_script()]))?;
    fs::write(root.join(READY), "").context("note that it is complete")
}

/// A mirror may lag behind, so the date of its index is not looked at; its signature is.
///
/// The two objects belong to the standard library, and cargo, which builds that for us, leaves them out.
fn set_up_script() -> String {
    format!(
        "apt() {{ DEBIAN_FRONTEND=noninteractive apt-get -q -o Acquire::Check-Valid-Until=false \"$@\"; }}
printf '#!/bin/sh\\nexit 101\\n' > /usr/sbin/policy-rc.d
chmod +x /usr/sbin/policy-rc.d
apt update
apt install -y --no-install-recommends {PACKAGES}
objects=/usr/lib/rustlib/{TARGET}/lib
mkdir -p $objects
cd /usr/lib/rustlib/src/rust/library/rtstartup
for name in rsbegin rsend; do
  RUSTC_BOOTSTRAP=1 rustc --target {TARGET} --emit=obj -o $objects/$name.o $name.rs
done"
    )
}

/// The Debian, with this repository in it at its own place.
struct System {
    root: PathBuf,
    target: PathBuf,
}

impl System {
    /// Its mounts are its own, and end with the last of its processes.
    fn run(&self, command: &str) -> Result<()> {
        let mut unshare = Command::new("unshare");
        unshare.args(["--mount", "--propagation", "private", "sh", "-e", "-c", ENTER, "sh"]);
        unshare.args([self.root.as_path(), workspace::root(), &registry()?, &self.target]);
        unshare.arg(command);
        process::run(&mut unshare)
    }
}

/// What cargo has fetched already.
fn registry() -> Result<PathBuf> {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cargo")));
    let registry = home
        .context("neither CARGO_HOME nor HOME is set, so the registry of cargo is unknown")?
        .join("registry");
    fs::create_dir_all(&registry).with_context(|| format!("make {}", registry.display()))?;
    Ok(registry)
}

/// Arguments: the root, the repository, the registry, the target folder, the command.
const ENTER: &str = r#"
root=$1; repository=$2; registry=$3; target=$4; command=$5
mkdir -p "$root$repository" "$root$target" "$root/cargo/registry" "$target"
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
mount --bind "$repository" "$root$repository"
mount --bind "$target" "$root$target"
mount --bind "$registry" "$root/cargo/registry"
exec chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root CARGO_HOME=/cargo \
  CARGO_TARGET_DIR="$target" CARGO_BUILD_TARGET=x86_64-pc-windows-gnu \
  RUSTC_BOOTSTRAP=1 CARGO_UNSTABLE_BUILD_STD=std,panic_unwind,test \
  CARGO_TARGET_X86_64_PC_WINDOWS_GNU_RUNNER=wine WINEDEBUG=-all \
  sh -e -c "cd \"$repository\"; $command"
"#;
