//! The example of the bare app protocol in TypeScript: its types are checked, strictly, by the compiler that is
//! pinned, and it runs as it is written.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::gateway::{Home, eventually};
use crate::{Running, node};

const EXAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/clock-app");

/// Whether the compiler accepts the project in this folder, and its output.
fn check(node: &str, npm: &Path, project: &Path) -> (bool, String) {
    let mut command = Command::new(node);
    command.arg(npm.join("node_modules/typescript/bin/tsc")).arg("--project").arg(project);
    command.arg("--typeRoots").arg(npm.join("node_modules/@types"));
    let output = command.output().unwrap();
    (output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned())
}

/// A copy of the example in which a word is replaced.
fn changed(home: &Home, from: &str, to: &str) -> PathBuf {
    for name in ["clock_app.ts", "tsconfig.json", "package.json"] {
        let text = std::fs::read_to_string(Path::new(EXAMPLE).join(name)).unwrap();
        assert!(name != "clock_app.ts" || text.contains(from), "{from} is not in the example");
        home.write(&format!("changed/{name}"), &text.replace(from, to));
    }
    home.path("changed")
}

#[test]
#[ignore = "needs the npm packages; `cargo xtask peers` installs them"]
fn the_types_of_the_typescript_example_are_right_and_reject_a_wrong_message() {
    let (node, npm) = node();
    let (is_good, printed) = check(&node, &npm, Path::new(EXAMPLE));
    assert!(is_good, "{printed}");
    let home = Home::new();
    let (is_good, printed) =
        check(&node, &npm, &changed(&home, "correlationId, result:", "correlation, result:"));
    assert!(!is_good && printed.contains("correlation"), "{printed}");
}

#[test]
#[ignore = "needs the npm packages; `cargo xtask peers` installs them"]
fn the_bare_protocol_in_typescript_works_as_it_is_written() {
    let (node, _) = node();
    let home = Home::new();
    home.write("config.toml", "[apps]\nlisten = \"127.0.0.1:0\"\nscan = false\n");
    let gateway = home.start(&["--config", "config.toml"]);
    let file = std::fs::read(home.path("state/gateway.json")).unwrap();
    let addresses: Value = serde_json::from_slice(&file).unwrap();
    let address = addresses["apps"].as_str().unwrap().strip_prefix("tcp://").unwrap().to_owned();
    let mut command = Command::new(&node);
    command.arg(format!("{EXAMPLE}/clock_app.ts")).arg(&address).stdin(Stdio::null());
    let _app = Running(command.spawn().unwrap());
    use_clock(&home);
    // The gateway comes back at the same place, and the app comes back to it.
    drop(gateway);
    home.write("config.toml", &format!("[apps]\nlisten = \"{address}\"\nscan = false\n"));
    let _gateway = home.start(&["--config", "config.toml"]);
    use_clock(&home);
}

fn use_clock(home: &Home) {
    let call = |words: &[&str]| {
        let own = ["--config", "config.toml", "--state-dir", "state", "tools", "call"];
        home.run(&[&own[..], words].concat())
    };
    let sum = eventually("its tools", || {
        let (code, sum, _) = call(&["NodeClock__add", "a:=1", "b:=2"]);
        (code == 0).then_some(sum)
    });
    assert!(sum.contains("\"sum\":3") || sum.contains("\"sum\": 3"), "{sum}");
    let (code, printed, trouble) = call(&["NodeClock__ring"]);
    assert!(code != 0 && (printed + &trouble).contains("the bell is missing"), "{trouble}");
    let (code, now, trouble) = call(&["NodeClock__now"]);
    assert!(code == 0 && now.trim().parse::<u64>().is_ok_and(|now| now > 1_700_000_000), "{now} {trouble}");
}
