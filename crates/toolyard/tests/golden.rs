//! The output of `toolyard validate` for good and bad configs, word by word.
//!
//! Each file in `golden/` has its expected outcome beside it (`.txt`). `UPDATE=1 cargo test -p toolyard`
//! writes them again; look at the difference before you keep it.

#![expect(clippy::unwrap_used, reason = "in a test, to fail is to say so")]

use std::path::{Path, PathBuf};
use std::process::Command;

#[test]
fn every_config_gets_the_expected_output() {
    let mut wrong = Vec::new();
    let configs = configs();
    assert!(configs.len() > 15, "the configs are not where they should be");
    for config in configs {
        let got = validate(&config, &[]);
        check(&config.with_extension(""), &got, &mut wrong);
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_result_can_be_printed_as_json() {
    let mut wrong = Vec::new();
    for name in ["servers-good.json", "off-loopback.toml"] {
        let got = validate(&folder().join(name), &["--json"]);
        check(&folder().join(format!("json-of-{}", name.replace('.', "-"))), &got, &mut wrong);
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_readme_shows_what_validate_prints_for_its_config() {
    let readme = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../README.md");
    let readme = std::fs::read_to_string(readme).unwrap();
    let (_, part) = readme.split_once("\n## Config\n").unwrap();
    let block = |start: &str| part.split_once(start).unwrap().1.split_once("```").unwrap().0;
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("toolyard.toml"), block("```toml\n")).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_toolyard"))
        .args(["validate", "--config", "toolyard.toml"])
        .current_dir(folder.path())
        .env_clear()
        .output()
        .unwrap();
    let printed = String::from_utf8([output.stderr, output.stdout].concat()).unwrap();
    assert_eq!(printed, block("```console\n$ toolyard validate --config toolyard.toml\n"));
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden")
}

fn configs() -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder()).unwrap();
    let mut configs: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    configs.retain(|path| path.extension().is_some_and(|extension| extension != "txt"));
    configs.sort();
    configs
}

/// The output of the command, in an environment in which only `GREETING` is set.
fn validate(config: &Path, flags: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_toolyard"))
        .args(["validate", "--config"])
        .arg(config.file_name().unwrap())
        .args(flags)
        .current_dir(folder())
        .env_clear()
        .env("GREETING", "hello")
        .output()
        .unwrap();
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let code = output.status.code().unwrap();
    format!("exit code {code}\n--- stdout\n{}--- stderr\n{}", text(&output.stdout), text(&output.stderr))
}

fn check(stem: &Path, got: &str, wrong: &mut Vec<String>) {
    let expected_file = stem.with_extension("txt");
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&expected_file, got).unwrap();
    }
    let expected = std::fs::read_to_string(&expected_file).unwrap_or_default();
    if got != expected {
        let name = expected_file.file_name().unwrap().display();
        wrong.push(format!("{name} differs.\n== expected\n{expected}== got\n{got}"));
    }
}

#[cfg(unix)]
#[test]
fn good_configs_fit_the_schema_and_a_wrong_key_does_not() {
    let printed = Command::new(env!("CARGO_BIN_EXE_toolyard")).arg("schema").env_clear().output().unwrap();
    let schema: serde_json::Value = serde_json::from_slice(&printed.stdout).unwrap();
    let schema = jsonschema::validator_for(&schema).unwrap();
    let is_good = |path: &PathBuf| path.to_string_lossy().ends_with("-good.toml");
    let mut good: Vec<PathBuf> = configs();
    good.retain(is_good);
    assert!(good.len() > 3, "the good configs are not where they should be");
    for path in good {
        let mut config: serde_json::Value = toml::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
        let wrong: Vec<String> =
            schema.iter_errors(&config).map(|error| format!("{}: {error}", error.instance_path())).collect();
        assert!(wrong.is_empty(), "{}: {wrong:?}", path.display());
        config["no_such_key"] = true.into();
        assert!(!schema.is_valid(&config), "{}", path.display());
    }
}
