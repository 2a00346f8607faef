//! The two images of the `Containerfile`, built with buildah from Debian's packages: no registry of images is needed.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, bail};

use super::check;
use crate::{process, tools, workspace};

/// The release of Debian that the images are made of, and the name of the base.
const RELEASE: &str = "trixie";
const BASE: &str = "localhost/toolyard-base";

/// A server with one tool, to be started with node.
const SERVER: &str = r#"
import { createInterface } from "node:readline";
const send = (id, result) => console.log(JSON.stringify({ jsonrpc: "2.0", id, result }));
createInterface({ input: process.stdin }).on("line", (line) => {
  const { id, method, params } = JSON.parse(line);
  if (id === undefined) return;
  if (method === "initialize") send(id, { protocolVersion: params.protocolVersion, capabilities: { tools: {} }, serverInfo: { name: "node", version: "1" } });
  else if (method === "tools/list") send(id, { tools: [{ name: "hello", inputSchema: { type: "object" } }] });
  else send(id, {});
});
"#;

/// `version` is what `toolyard --version` must print.
pub(super) fn build(version: &str) -> Result<()> {
    let buildah = tools::debian("buildah")?;
    let folder = workspace::target_directory()?.join("dist/image");
    place_uv(&folder)?;
    make_base(&buildah, &folder)?;
    for target in ["slim", "full"] {
        let mut build = run(&buildah);
        build.args(["build", "--build-arg", &format!("BASE={BASE}"), "--build-arg", "FILES=."]);
        build.args(["--target", target, "--tag", &format!("toolyard:{target}"), "--file"]);
        build.arg(workspace::root().join("Containerfile")).arg(&folder);
        process::run(&mut build)?;
        attempt(&buildah, target, version)?;
    }
    Ok(())
}

/// Works without a user namespace and without overlay file systems, as in a container of CI.
fn run(buildah: &Path) -> Command {
    let mut command = Command::new(buildah);
    command.env("BUILDAH_ISOLATION", "chroot").env("STORAGE_DRIVER", "vfs");
    command
}

/// uv is not among Debian's packages, so its program comes from its wheel.
fn place_uv(folder: &Path) -> Result<()> {
    let python = tools::image_python()?;
    for name in ["uv", "uvx"] {
        fs::copy(python.with_file_name(name), folder.join(name)).with_context(|| format!("copy {name}"))?;
    }
    Ok(())
}

/// A small Debian, as an image.
fn make_base(buildah: &Path, folder: &Path) -> Result<()> {
    let mmdebstrap = tools::debian("mmdebstrap")?;
    let tar = folder.join("base.tar");
    let mut debian = Command::new(mmdebstrap);
    debian.args(["--quiet", "--variant=minbase", "--include=ca-certificates,tini", RELEASE]);
    process::run(debian.arg(&tar))?;
    let container = process::output(run(buildah).args(["from", "scratch"]))?;
    let container = container.trim();
    process::run(run(buildah).args(["add", "--quiet", container]).arg(&tar).arg("/"))?;
    process::run(run(buildah).args(["commit", "--quiet", "--rm", container, BASE]))?;
    fs::remove_file(tar).context("remove the base")
}

/// The gateway starts in the image and lists its tools, and the programs that servers need are there.
fn attempt(buildah: &Path, target: &str, version: &str) -> Result<()> {
    let container = process::output(run(buildah).args(["from", &format!("localhost/toolyard:{target}")]))?;
    let container = container.trim();
    let tried = try_container(buildah, container, target, version);
    process::run(run(buildah).args(["rm", container]))?;
    tried
}

fn try_container(buildah: &Path, container: &str, target: &str, version: &str) -> Result<()> {
    let inside = |line: &str| {
        let mut command = run(buildah);
        command.args(["run", container, "--", "sh", "-c", line]);
        command
    };
    check::check_version(&process::output(&mut inside("toolyard --version"))?, version)?;
    let answer = check::ask(&mut inside("exec timeout 60 toolyard stdio"))?;
    if !answer.contains("dev__echo") {
        bail!("the gateway in the image lists no tools: {answer}");
    }
    if target == "full" {
        let programs = "node --version && npx --version && git --version && uvx --version";
        print!("{}", process::output(&mut inside(programs))?);
        // A server that is started with one of them answers through the gateway.
        let copy = workspace::target_directory()?.join("dist/server.mjs");
        fs::write(&copy, SERVER)?;
        process::run(run(buildah).args(["copy", "--quiet", container]).arg(copy).arg("/tmp/server.mjs"))?;
        let line = "cd /tmp && printf '[upstreams.node]\\ncommand = \"node\"\\nargs = [\"/tmp/server.mjs\"]\\n' > t.toml && exec timeout 60 toolyard stdio --config t.toml";
        let answer = check::ask(&mut inside(line))?;
        if !answer.contains("node__hello") {
            bail!("a server that is started with node does not answer in the image: {answer}");
        }
    }
    Ok(())
}
