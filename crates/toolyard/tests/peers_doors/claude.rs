//! Claude Code, as its user meets it: `claude mcp add`, then `claude mcp list`. It prints `Connected` for a server
//! that greets it, and adds `tools fetch failed` where it refuses the list.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::gateway::{Gateway, Home, eventually};
use super::{instance, node, shim};

const STRANGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/strange");

/// Claude Code with a home of its own. It is configured not to use the internet, and could not reach it: all traffic
/// that leaves this machine goes to a port where nothing listens.
struct Claude<'a> {
    program: PathBuf,
    home: &'a Home,
}

impl Claude<'_> {
    fn run(&self, words: &[&str]) -> String {
        let mut command = Command::new(&self.program);
        command.arg("mcp").args(words).current_dir(self.home.path("")).env_clear().stdin(Stdio::null());
        command.env("HOME", self.home.path("")).env("XDG_RUNTIME_DIR", self.home.path(""));
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.env("CLAUDE_CONFIG_DIR", self.home.path("claude"));
        command.env("DISABLE_AUTOUPDATER", "1").env("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1");
        command.env("HTTPS_PROXY", "http://127.0.0.1:9").env("NO_PROXY", "127.0.0.1,localhost");
        let output = command.output().unwrap();
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{words:?}: {printed}{}", String::from_utf8_lossy(&output.stderr));
        printed
    }
}

fn program(npm: &Path) -> PathBuf {
    let folder = npm.join("node_modules/@anthropic-ai");
    let found = ["claude-code-linux-x64", "claude-code-linux-arm64"]
        .map(|package| folder.join(package).join("claude"));
    found.into_iter().find(|program| program.is_file()).expect("Claude Code is among the npm peers")
}

#[test]
#[ignore = "needs the npm packages; `cargo xtask peers` installs them"]
fn claude_code_accepts_the_list_at_every_door() {
    let (_, npm) = node();
    let home = Home::new();
    home.write("music/readme", "");
    let strange =
        format!("[upstreams.strange]\ncommand = \"sh\"\nargs = [\"{STRANGE}/server.sh\", \"{STRANGE}\"]\n");
    home.write("config.toml", &format!("{strange}[packs.music]\nroot = \"music\"\n[profiles.all]\n"));
    let gateway = home.start(&["--config", "config.toml"]);
    let _instance = instance(&home, "clock");
    wait_for_all(&home);
    let claude = Claude { program: program(&npm), home: &home };
    let doors = doors(&claude, &gateway);
    let printed = claude.run(&["list"]);
    for door in doors {
        let line = printed.lines().find(|line| line.starts_with(&format!("{door}:")));
        assert!(line.is_some_and(|line| line.ends_with("✔ Connected")), "{door}: {printed}");
    }
    // Without the gateway's repair, Claude Code refuses: this view shows the server's definitions unchanged.
    claude.run(&["add", "--transport", "http", "alone", &format!("{}/mcp/strange", gateway.url)]);
    assert!(
        claude.run(&["list"]).contains("tools fetch failed"),
        "Claude Code accepts the invalid definitions itself: {printed}"
    );
}

/// The upstream, both packs and the instance are there.
fn wait_for_all(home: &Home) {
    eventually("all upstreams are active", || {
        let (_, printed, _) = home.run(&["list", "--config", "config.toml", "--state-dir", "state"]);
        (printed.matches(" active ").count() == 4).then_some(())
    });
}

/// Adds every door; gives their names.
fn doors(claude: &Claude<'_>, gateway: &Gateway) -> Vec<&'static str> {
    let at = |view: &str| format!("{}/mcp{view}", gateway.url);
    for (name, url) in [("http", at("")), ("profile", at("/p/all")), ("hub", at("/hub"))] {
        claude.run(&["add", "--transport", "http", name, &url]);
    }
    claude.run(&["add", "--transport", "sse", "sse", &format!("{}/sse", gateway.url)]);
    let shim = shim(claude.home);
    let words: Vec<&str> = shim.iter().map(String::as_str).collect();
    claude.run(&[&["add", "stdio", "--"], &*words].concat());
    claude.run(&[&["add", "stdio-hub", "--"], &*words, &["--hub"]].concat());
    let own = ["install", "claude-code", "--config", "config.toml", "--state-dir", "state", "--yes"];
    let claude_folder = claude.home.path("claude");
    let output = claude.home.toolyard(&own).env("CLAUDE_CONFIG_DIR", claude_folder).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    vec!["http", "profile", "hub", "sse", "stdio", "stdio-hub", "toolyard"]
}
