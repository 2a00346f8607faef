//! Plays a transcript: makes the files that it shows, runs the commands that it shows, and writes it again with
//! their output.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use tempfile::TempDir;

use crate::fixture::fixture;

/// `with-gateway COMMAND`: runs a command while a gateway runs; with `APPS=` before it, one that has apps.
const WITH_GATEWAY: &str = r#"
#!/bin/sh
rm -f gateway.log
toolyard serve ${APPS---no-apps} --listen 127.0.0.1:0 2>gateway.log & gateway=$!
until grep -qs 'listening on' gateway.log; do kill -0 $gateway || exit 9; sleep 0.02; done
sh -c "$1"; code=$?
kill $gateway 2>/dev/null; wait $gateway 2>/dev/null
exit $code
"#;

/// The transcript as it went this time.
pub(crate) fn play(written: &str) -> String {
    let home = tempfile::tempdir().unwrap();
    std::fs::create_dir(home.path().join("bin")).unwrap();
    std::fs::create_dir(home.path().join("run")).unwrap();
    std::os::unix::fs::symlink(fixture(), home.path().join("bin/fixture")).unwrap();
    write(&home.path().join("bin/with-gateway"), WITH_GATEWAY.trim());
    std::fs::set_permissions(home.path().join("bin/with-gateway"), Permissions::from_mode(0o700)).unwrap();
    let (mut played, mut lines) = (String::new(), written.lines());
    let mut name = None;
    while let Some(line) = lines.next() {
        played.extend([line, "\n"]);
        let Some(kind) = line.strip_prefix("```") else {
            name = line
                .strip_prefix('`')
                .and_then(|rest| rest.strip_suffix("`:"))
                .or(name.filter(|_| line.is_empty()));
            continue;
        };
        let block: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
        match (kind, name.take()) {
            ("console", _) => {
                let commands = block.iter().filter_map(|line| line.strip_prefix("$ "));
                commands.for_each(|command| played.push_str(&run(&home, command)));
            }
            (_, Some(name)) => {
                write(&home.path().join(name), &expanded(&home, &block.join("\n")));
                played.push_str(&block.join("\n"));
                played.push('\n');
            }
            _ => panic!("a block that is neither a file nor commands, after {played}"),
        }
        played.push_str("```\n");
    }
    played
}

/// The home has another name each time; in a transcript it is `/home/you`.
fn expanded(home: &TempDir, text: &str) -> String {
    text.replace("/home/you", home.path().to_str().unwrap())
}

fn write(path: &Path, text: &str) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, format!("{text}\n")).unwrap();
}

/// The command and its output.
fn run(home: &TempDir, command: &str) -> String {
    let programs = Path::new(env!("CARGO_BIN_EXE_toolyard")).parent().unwrap().display();
    let path =
        format!("{}/bin:{programs}:{}", home.path().display(), std::env::var("PATH").unwrap_or_default());
    // None takes longer than this, unless it hangs.
    let output = Command::new("timeout")
        .args(["90", "sh", "-c", &format!("exec 2>&1; {}", expanded(home, command))])
        .current_dir(home.path())
        .env_clear()
        .env("HOME", home.path())
        .env("PATH", path)
        .env("XDG_RUNTIME_DIR", home.path().join("run"))
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let printed = String::from_utf8(output.stdout).unwrap();
    // The home may be in a folder that has another name, too.
    let canonical = home.path().canonicalize().unwrap();
    let printed = printed
        .replace(canonical.to_str().unwrap(), "/home/you")
        .replace(home.path().to_str().unwrap(), "/home/you");
    let code = match output.status.code() {
        Some(0) => String::new(),
        code => format!("(exit code {})\n", code.map_or("none".to_owned(), |code| code.to_string())),
    };
    let end = if printed.is_empty() || printed.ends_with('\n') { "" } else { "\n" };
    format!("$ {command}\n{printed}{end}{code}")
}
