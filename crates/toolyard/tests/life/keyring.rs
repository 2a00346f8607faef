//! The key of the secrets in the keyring of a desktop session: a real Secret Service on a session bus of its own.

use std::process::{Command, Output};

use crate::yard::Yard;

/// A desktop session of the user of this yard, whose keyring is unlocked.
const SESSION: &str = "
set -e
printf password | gnome-keyring-daemon --daemonize --login --components=secrets >/dev/null
gnome-keyring-daemon --start --components=secrets >/dev/null
";

/// Runs a shell script with `toolyard` as `$T`.
fn shell(yard: &Yard, program: &[&str], script: &str) -> Output {
    let runtime = yard.folder().join("runtime");
    std::fs::create_dir_all(&runtime).unwrap();
    let mut command = Command::new(program[0]);
    command.args(&program[1..]).args(["sh", "-c", script]).current_dir(yard.folder()).env_clear();
    command.env("PATH", std::env::var_os("PATH").unwrap()).env("HOME", yard.folder()).env(yard.mark(), "1");
    command.env("XDG_RUNTIME_DIR", runtime).env("T", env!("CARGO_BIN_EXE_toolyard"));
    command.output().unwrap()
}

/// Runs a script in a session of its own, and returns what it printed.
fn in_session(yard: &Yard, script: &str) -> String {
    let output = shell(yard, &["dbus-run-session", "--"], &format!("{SESSION}{script}"));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    text
}

#[test]
#[ignore = "needs dbus, gnome-keyring and libsecret-tools; `cargo xtask test` runs it where they are installed"]
fn the_key_moves_to_the_keyring_of_a_session_and_back_and_secrets_can_be_read_only_with_it() {
    let yard = Yard::new(&[]);
    std::fs::write(yard.folder().join("listen.toml"), "[listen]\ntoken = \"${secret:one}\"\n").unwrap();
    let folder = yard.folder().join(".local/state/toolyard/secrets");
    let moved = in_session(
        &yard,
        r#"printf hunter2 | "$T" secret set one
           cp .local/state/toolyard/secrets/key key-before
           "$T" secret key
           "$T" secret key keyring
           printf x | "$T" secret set two
           "$T" secret list
           "$T" validate --config listen.toml"#,
    );
    let expected = "the key of the secrets is in the file\nthe key of the secrets is in the keyring\n";
    assert!(moved.contains(expected) && moved.contains("\none\ntwo\n"), "{moved}");
    assert!(!folder.join("key").exists(), "the key is in no file");
    let key = std::fs::read_to_string(yard.folder().join("key-before")).unwrap();
    for file in std::fs::read_dir(&folder).unwrap() {
        let bytes = std::fs::read(file.unwrap().path()).unwrap();
        assert!(!String::from_utf8_lossy(&bytes).contains(key.trim()));
    }

    // Without the session, such as over ssh, the secrets cannot be read, and nothing is lost.
    let outside = shell(&yard, &["env"], r#"printf x | "$T" secret set three"#);
    let why = String::from_utf8(outside.stderr).unwrap();
    assert!(!outside.status.success() && why.contains("the keyring did not return the key"), "{why}");

    let back = in_session(&yard, r#""$T" secret key file && "$T" secret list"#);
    assert_eq!(back, "the key of the secrets is in the file\none\ntwo\n");
    let outside = shell(&yard, &["env"], r#""$T" secret list && "$T" validate --config listen.toml"#);
    assert!(outside.status.success(), "{}", String::from_utf8_lossy(&outside.stderr));
    assert_eq!(std::fs::read_to_string(folder.join("key")).unwrap().trim(), key.trim(), "the same key");
}
