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

/// The output of the command, in an environment in which only `GREETING` and an empty `EMPTY` are set.
fn validate(config: &Path, flags: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_toolyard"))
        .args(["validate", "--config"])
        .arg(config.file_name().unwrap())
        .args(flags)
        .current_dir(folder())
        .env_clear()
        .env("GREETING", "hello")
        .env("EMPTY", "")
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
mod schema {
    use std::collections::BTreeSet;

    use jsonschema::error::ValidationErrorKind as Kind;
    use jsonschema::{ValidationError, Validator};
    use serde_json::Value;

    use super::*;

    #[test]
    fn good_configs_fit_the_schema_and_a_wrong_key_does_not() {
        let schema = schema();
        let mut good = configs();
        good.retain(|path| path.to_string_lossy().ends_with("-good.toml"));
        assert!(good.len() > 3, "the good configs are not where they should be");
        for path in good {
            let mut config = read(&path).unwrap();
            assert_eq!(faults(&schema, &config), BTreeSet::new(), "{}", path.display());
            config["no_such_key"] = true.into();
            assert_eq!(faults(&schema, &config), ["no_such_key".to_owned()].into(), "{}", path.display());
        }
    }

    #[test]
    fn the_configs_that_the_guide_shows_fit_the_schema() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let pages = std::fs::read_dir(root.join("docs/guide")).unwrap().map(|entry| entry.unwrap().path());
        let (schema, mut count) = (schema(), 0);
        for page in pages.chain([root.join("README.md")]).filter(|path| path.is_file()) {
            let text = std::fs::read_to_string(&page).unwrap();
            for block in text.split("```toml\n").skip(1).filter_map(|after| after.split("```").next()) {
                let config =
                    toml::from_str(block).unwrap_or_else(|error| panic!("{}: {error}", page.display()));
                assert_eq!(faults(&schema, &config), BTreeSet::new(), "{}: {block}", page.display());
                count += 1;
            }
        }
        assert!(count > 30, "the blocks are not where they should be: {count}");
    }

    /// What `validate` reports in the configs with mistakes, as far as a schema can state it.
    #[test]
    fn unknown_keys_and_values_of_a_wrong_kind_do_not_fit_the_schema() {
        let (schema, mut count) = (schema(), 0);
        for path in configs() {
            let Some(config) = read(&path) else { continue };
            let found = faults(&schema, &config);
            for problem in problems(&path) {
                let (key, message) = (problem["key"].as_str().unwrap(), problem["message"].as_str().unwrap());
                if STATED.iter().any(|begin| message.starts_with(begin)) {
                    let is_found = found.iter().any(|fault| is_within(key, fault));
                    assert!(is_found, "{}: {key}: {message}: {found:?}", path.display());
                    count += 1;
                }
            }
        }
        assert!(count > 40, "{count} such mistakes were found");
    }

    /// The beginnings of messages about what a schema states.
    const STATED: [&str; 7] = [
        "unknown key",
        "expected one of",
        "expected a list",
        "expected a string, found",
        "expected a table",
        "expected a whole number, found",
        "expected true or false",
    ];

    fn schema() -> Validator {
        let printed =
            Command::new(env!("CARGO_BIN_EXE_toolyard")).arg("schema").env_clear().output().unwrap();
        jsonschema::validator_for(&serde_json::from_slice(&printed.stdout).unwrap()).unwrap()
    }

    /// A config in TOML; nothing for others, and for one that cannot be parsed.
    fn read(path: &Path) -> Option<Value> {
        path.extension().filter(|extension| *extension == "toml")?;
        toml::from_str(&std::fs::read_to_string(path).unwrap()).ok()
    }

    fn problems(config: &Path) -> Vec<Value> {
        let mut command = Command::new(env!("CARGO_BIN_EXE_toolyard"));
        command.args(["validate", "--json", "--config"]).arg(config).env_clear();
        let printed: Value = serde_json::from_slice(&command.output().unwrap().stdout).unwrap();
        printed["problems"].as_array().unwrap().clone()
    }

    /// The places where a config does not fit, with dots between the keys.
    fn faults(schema: &Validator, config: &Value) -> BTreeSet<String> {
        schema.iter_errors(config).flat_map(|error| places(&error)).collect()
    }

    fn places(error: &ValidationError<'_>) -> Vec<String> {
        let place =
            error.instance_path().as_str().trim_start_matches('/').replace('/', ".").replace("~1", "/");
        let below = |key: &String| if place.is_empty() { key.clone() } else { format!("{place}.{key}") };
        match error.kind() {
            Kind::AdditionalProperties { unexpected } => unexpected.iter().map(below).collect(),
            _ => vec![place],
        }
    }

    /// Whether the reader's place of a mistake is this one, or lies within it.
    fn is_within(key: &str, fault: &str) -> bool {
        let key = key.replace('[', ".").replace([']', '"'], "");
        key.strip_prefix(fault).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    }
}
