//! Builds the program with zig as linker, against an old glibc.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};

use crate::{process, tools, workspace};

/// The oldest glibc that the program starts with.
const GLIBC: (u32, u32) = (2, 17);

/// Where zig and cargo-zigbuild are.
pub(super) struct Tools {
    programs: PathBuf,
    zig: PathBuf,
}

/// Which packs the program has.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Packs {
    All,
    None,
}

/// A program that was built.
pub(super) struct Program {
    /// With the names of its functions, by which its parts are counted.
    pub(super) named: PathBuf,
    /// As it is shipped.
    pub(super) stripped: PathBuf,
}

pub(super) fn tools() -> Result<Tools> {
    let python = tools::dist_python()?;
    let find = "import os, ziglang; print(os.path.join(os.path.dirname(ziglang.__file__), 'zig'))";
    let zig = process::output(Command::new(&python).args(["-c", find]))?.trim().into();
    let programs = python.parent().context("find the folder of the Python programs")?.to_owned();
    Ok(Tools { programs, zig })
}

pub(super) fn program(tools: &Tools, packs: Packs) -> Result<Program> {
    let triple = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let mut path = vec![tools.programs.clone()];
    path.extend(std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()));
    let mut cargo = workspace::cargo();
    let target = format!("{triple}.{}.{}", GLIBC.0, GLIBC.1);
    cargo.args(["zigbuild", "--profile", "dist", "--locked", "--package", "toolyard", "--target", &target]);
    if packs == Packs::None {
        cargo.arg("--no-default-features");
    }
    cargo.env("PATH", std::env::join_paths(path)?).env("CARGO_ZIGBUILD_ZIG_PATH", &tools.zig);
    // Flags of this machine may name a linker that is not zig.
    cargo.env("CARGO_ENCODED_RUSTFLAGS", "");
    process::run(&mut cargo)?;
    let target = workspace::target_directory()?;
    let name = if packs == Packs::All { "toolyard" } else { "toolyard-without-packs" };
    let folder = target.join("dist-build");
    fs::create_dir_all(&folder)?;
    let (named, stripped) = (folder.join(format!("{name}.named")), folder.join(name));
    fs::copy(target.join(triple).join("dist/toolyard"), &named).context("copy the program")?;
    let mut strip = Command::new("strip");
    process::run(strip.args(["--strip-all", "-o"]).arg(&stripped).arg(&named))?;
    Ok(Program { named, stripped })
}

/// Fails if the program needs a newer glibc than it may.
pub(super) fn check_glibc(program: &Path) -> Result<()> {
    let bytes = fs::read(program).with_context(|| format!("read `{}`", program.display()))?;
    let newest = newest_glibc(&bytes);
    let Some(newest) = newest else {
        println!("it needs no glibc");
        return Ok(());
    };
    println!("it needs glibc {}.{}", newest.0, newest.1);
    if newest > GLIBC {
        bail!("the program needs glibc {}.{}, newer than {}.{}", newest.0, newest.1, GLIBC.0, GLIBC.1);
    }
    Ok(())
}

/// The newest version of glibc that a program's symbols name, such as `GLIBC_2.17`.
fn newest_glibc(bytes: &[u8]) -> Option<(u32, u32)> {
    const MARK: &[u8] = b"GLIBC_";
    let marks = bytes.windows(MARK.len()).enumerate().filter(|(_, window)| *window == MARK);
    let version = |(at, _): (usize, &[u8])| {
        let rest = bytes.get(at + MARK.len()..)?;
        let end = rest.iter().position(|byte| !byte.is_ascii_digit() && *byte != b'.')?;
        let text = std::str::from_utf8(&rest[..end]).ok()?;
        let mut numbers = text.split('.').map(str::parse);
        Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
    };
    marks.filter_map(version).max()
}

#[cfg(test)]
mod tests {
    use super::newest_glibc;

    #[test]
    fn the_newest_version_counts_as_a_number() {
        assert_eq!(newest_glibc(b"\0GLIBC_2.2.5\0GLIBC_2.17\0GLIBC_2.9\0GLIBC_PRIVATE\0"), Some((2, 17)));
        assert_eq!(newest_glibc(b"static"), None);
    }
}
