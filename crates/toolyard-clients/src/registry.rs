//! Reads a `server.json` of the MCP registry: a description of a server as a package to run or an address to connect
//! to, with the variables, headers and arguments that it needs.
//!
//! Of several ways, the first package that can be started here wins, then the first address. A value that the file
//! leaves open becomes a reference: `${NAME}`, or `${secret:NAME}` where the file calls it a secret.

use serde_json::Value;
use toolyard_config::definition::Definition;

/// Whether this is a `server.json`, as it is written or as the registry answers with it.
pub fn is_registry(json: &Value) -> bool {
    let server = inner(json);
    server["name"].is_string() && (server["packages"].is_array() || server["remotes"].is_array())
}

/// The registry puts the file into `server`.
fn inner(json: &Value) -> &Value {
    json.get("server").filter(|server| server.is_object()).unwrap_or(json)
}

/// The error states why no way to the server can be used.
pub fn read(json: &Value) -> Result<Definition, String> {
    let server = inner(json);
    let full = server["name"].as_str().unwrap_or_default();
    let list = |key: &str| server[key].as_array().cloned().unwrap_or_default();
    let (packages, remotes) = (list("packages"), list("remotes"));
    let mut kinds = Vec::new();
    for package in &packages {
        match of_package(package) {
            Ok(definition) => return Ok(definition),
            Err(kind) => kinds.push(kind),
        }
    }
    for remote in &remotes {
        match of_remote(remote) {
            Ok(definition) => return Ok(definition),
            Err(kind) => kinds.push(kind),
        }
    }
    if kinds.is_empty() {
        return Err(format!("`{full}` has neither packages nor remotes"));
    }
    Err(format!("`{full}` offers only what Toolyard cannot use: {}", kinds.join(", ")))
}

/// A field under its name of today, or under that of the first versions of the format.
fn text<'a>(object: &'a Value, name: &str, earlier: &str) -> Option<&'a str> {
    object[name].as_str().or_else(|| object[earlier].as_str()).filter(|text| !text.is_empty())
}

fn items<'a>(object: &'a Value, name: &str, earlier: &str) -> impl Iterator<Item = &'a Value> {
    object[name].as_array().or_else(|| object[earlier].as_array()).into_iter().flatten()
}

/// The error is the kind of package that cannot be started.
fn of_package(package: &Value) -> Result<Definition, String> {
    let kind = text(package, "registryType", "registry_type").or_else(|| text(package, "registry_name", ""));
    let kind = kind.unwrap_or("a package of no kind");
    if package["transport"]["type"].as_str().is_some_and(|transport| transport != "stdio") {
        return Err(format!("{kind} over {}", package["transport"]["type"].as_str().unwrap_or_default()));
    }
    let identifier = text(package, "identifier", "name").ok_or_else(|| format!("{kind} without a name"))?;
    let identifier = escaped(identifier);
    let version = package["version"].as_str().filter(|version| !version.is_empty() && *version != "latest");
    let version = version.map(escaped);
    let env: Vec<(String, String)> = items(package, "environmentVariables", "environment_variables")
        .filter(|variable| variable["name"].as_str().is_some_and(is_variable))
        .filter_map(|variable| Some((variable["name"].as_str()?.to_owned(), named(variable)?)))
        .collect();
    let at = |sign: &str| version.as_ref().map_or_else(String::new, |version| format!("{sign}{version}"));
    let (program, own, target) = match kind {
        "npm" => ("npx", vec!["-y".to_owned()], format!("{identifier}{}", at("@"))),
        "pypi" => ("uvx", Vec::new(), format!("{identifier}{}", at("@"))),
        "nuget" => ("dnx", vec!["--yes".to_owned()], format!("{identifier}{}", at("@"))),
        "oci" | "docker" => {
            let image = identifier.rsplit('/').next().unwrap_or_default();
            let tag = if image.contains([':', '@']) { String::new() } else { at(":") };
            let passed = env.iter().flat_map(|(name, _)| ["-e".to_owned(), name.clone()]);
            let own = ["run", "-i", "--rm"].map(str::to_owned).into_iter().chain(passed);
            ("docker", own.collect(), format!("{identifier}{tag}"))
        }
        other => return Err(other.to_owned()),
    };
    let program = text(package, "runtimeHint", "runtime_hint").unwrap_or(program);
    let runtime = arguments(items(package, "runtimeArguments", "runtime_arguments"));
    let mut args: Vec<String> = own;
    args.extend(runtime.into_iter().filter(|argument| argument != "-y" && argument != "--yes"));
    args.push(target);
    args.extend(arguments(items(package, "packageArguments", "package_arguments")));
    Ok(Definition { command: Some(escaped(program)), args, env, ..Definition::default() })
}

/// The error is the kind of address that cannot be used.
fn of_remote(remote: &Value) -> Result<Definition, String> {
    let kind = text(remote, "type", "transport_type").unwrap_or("streamable-http");
    if !matches!(kind, "streamable-http" | "streamable" | "http" | "sse") {
        return Err(format!("a remote of type {kind}"));
    }
    let url = remote["url"].as_str().ok_or_else(|| "a remote without a url".to_owned())?;
    let headers = items(remote, "headers", "headers");
    let headers =
        headers.filter_map(|header| Some((header["name"].as_str()?.to_owned(), named(header)?))).collect();
    Ok(Definition {
        url: Some(joined(template(url, &remote["variables"]))),
        headers,
        transport: (kind == "sse").then(|| "sse".to_owned()),
        ..Definition::default()
    })
}

fn arguments<'a>(all: impl Iterator<Item = &'a Value>) -> Vec<String> {
    let mut words = Vec::new();
    for argument in all {
        let flag = argument["name"].as_str().filter(|_| argument["type"] != "positional");
        let hint = text(argument, "valueHint", "value_hint").or(flag).unwrap_or("argument");
        let value = value(argument, &variable_name(hint));
        words.extend(flag.filter(|_| value.is_some() || is_required(argument)).map(escaped));
        // A flag without a value has no second word.
        let is_open = flag.is_some() && argument.get("value").is_none() && argument.get("default").is_none();
        let has_hint = text(argument, "valueHint", "value_hint").is_some();
        words.extend(value.filter(|_| !is_open || has_hint));
    }
    words
}

/// The value of a variable or header, which has a name of its own.
fn named(input: &Value) -> Option<String> {
    let name = variable_name(input["name"].as_str()?);
    value(input, &name)
}

/// A part of a value. What the file writes is kept apart from references until all of it is together: two parts of the
/// file must not make a reference where they meet.
enum Piece {
    Plain(String),
    Reference(String),
}

/// The written value, the default, or a reference if a value is required; `None` if it can be left out.
fn value(input: &Value, name: &str) -> Option<String> {
    pieces(input, name).map(joined)
}

fn pieces(input: &Value, name: &str) -> Option<Vec<Piece>> {
    if let Some(text) = input["value"].as_str() {
        return Some(template(text, &input["variables"]));
    }
    let default = match &input["default"] {
        Value::Null => None,
        Value::String(text) => Some(text.clone()),
        other => Some(other.to_string()),
    };
    if let Some(default) = default {
        return Some(vec![Piece::Plain(default)]);
    }
    let is_needed = is_required(input) || is_secret(input);
    is_needed.then(|| vec![reference(name, is_secret(input))])
}

fn joined(pieces: Vec<Piece>) -> String {
    let (mut out, mut plain) = (String::new(), String::new());
    for piece in pieces {
        match piece {
            Piece::Plain(text) => plain.push_str(&text),
            Piece::Reference(text) => {
                out.push_str(&escaped(&std::mem::take(&mut plain)));
                out.push_str(&text);
            }
        }
    }
    out + &escaped(&plain)
}

/// A text with `{name}` in the places of variables. The rest stays as it is.
fn template(text: &str, variables: &Value) -> Vec<Piece> {
    let (mut pieces, mut rest) = (Vec::new(), text);
    while let Some(start) = rest.find('{') {
        let Some(end) = rest[start..].find('}').map(|end| start + end) else { break };
        let name = &rest[start + 1..end];
        if let Some(about) = variables.get(name) {
            pieces.push(Piece::Plain(rest[..start].to_owned()));
            let variable = variable_name(name);
            let value = self::pieces(about, &variable);
            pieces.extend(value.unwrap_or_else(|| vec![reference(&variable, false)]));
        } else {
            pieces.push(Piece::Plain(rest[..=end].to_owned()));
        }
        rest = &rest[end + 1..];
    }
    pieces.push(Piece::Plain(rest.to_owned()));
    pieces
}

fn reference(name: &str, is_secret: bool) -> Piece {
    Piece::Reference(if is_secret { format!("${{secret:{name}}}") } else { format!("${{{name}}}") })
}

/// A text that is to stay as it is. What a stranger's file writes must not read variables or run commands.
fn escaped(text: &str) -> String {
    text.replace("${", "$${")
}

/// Whether a program can have a variable of this name.
fn is_variable(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

fn is_required(input: &Value) -> bool {
    input["isRequired"] == true || input["is_required"] == true
}

fn is_secret(input: &Value) -> bool {
    input["isSecret"] == true || input["is_secret"] == true
}

/// `X-API-Key` and `--api-key` become `X_API_KEY` and `API_KEY`.
fn variable_name(name: &str) -> String {
    let plain = name.trim_start_matches('-').chars();
    let plain: String =
        plain.map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' }).collect();
    if plain.starts_with(|c: char| c.is_ascii_digit()) { format!("_{plain}") } else { plain }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(json: &Value, expected: &str) {
        assert!(is_registry(json));
        assert_eq!(read(json).unwrap().to_toml().to_string().trim(), expected);
    }

    #[test]
    fn packages_are_run_by_the_program_of_their_registry() {
        let npm = json!({
            "name": "io.github.someone/weather", "version": "1.2.0",
            "packages": [{
                "registryType": "npm", "identifier": "@someone/weather", "version": "1.2.0",
                "transport": { "type": "stdio" },
                "runtimeArguments": [{ "type": "positional", "value": "-y" }],
                "packageArguments": [
                    { "type": "named", "name": "--units", "default": "metric" },
                    { "type": "named", "name": "--verbose" },
                    { "type": "positional", "valueHint": "city", "isRequired": true },
                ],
                "environmentVariables": [
                    { "name": "WEATHER_KEY", "isRequired": true, "isSecret": true },
                    { "name": "REGION", "default": "eu" },
                    { "name": "OPTIONAL" },
                ],
            }],
        });
        let expected = r#"command = "npx"
args = ["-y", "@someone/weather@1.2.0", "--units", "metric", "${CITY}"]
env = { WEATHER_KEY = "${secret:WEATHER_KEY}", REGION = "eu" }"#;
        check(&npm, expected);
        check(&json!({ "server": npm, "_meta": {} }), expected);
    }

    #[test]
    fn containers_get_the_variables_that_they_need() {
        let oci = json!({ "name": "x/y", "packages": [
            { "registryType": "mcpb", "identifier": "https://host.example/y.mcpb" },
            {
                "registryType": "oci", "identifier": "ghcr.io/x/y", "version": "2",
                "runtimeArguments": [{ "type": "named", "name": "--network", "value": "host" }],
                "environmentVariables": [{ "name": "TOKEN", "isRequired": true }],
            },
        ] });
        let expected = r#"command = "docker"
args = ["run", "-i", "--rm", "-e", "TOKEN", "--network", "host", "ghcr.io/x/y:2"]
env = { TOKEN = "${TOKEN}" }"#;
        check(&oci, expected);
    }

    #[test]
    fn addresses_are_filled_in_with_their_variables() {
        let remote = json!({ "name": "x/y", "remotes": [{
            "type": "sse", "url": "https://{tenant}.example/sse?v={v}",
            "variables": { "tenant": { "isRequired": true }, "v": { "default": "2" } },
            "headers": [{
                "name": "Authorization", "value": "Bearer {token}",
                "variables": { "token": { "isRequired": true, "isSecret": true } },
            }],
        }] });
        let expected = r#"url = "https://${TENANT}.example/sse?v=2"
transport = "sse"
headers = { Authorization = "Bearer ${secret:TOKEN}" }"#;
        check(&remote, expected);
    }

    #[test]
    fn values_of_the_file_read_no_variables_and_run_no_commands() {
        let remote = json!({ "name": "x/y", "remotes": [{
            "type": "http", "url": "https://host.example/${cmd:touch here}",
            "headers": [
                { "name": "X", "default": "${HOME}" },
                { "name": "Y", "value": "${x}", "variables": { "x": { "default": "{cmd:touch here}" } } },
            ],
        }] });
        let expected = r#"url = "https://host.example/$${cmd:touch here}"
headers = { X = "$${HOME}", Y = "$${cmd:touch here}" }"#;
        check(&remote, expected);
        let package = json!({ "name": "x/y", "packages": [{
            "registryType": "npm", "identifier": "${cmd:a}", "version": "${cmd:b}", "runtimeHint": "${cmd:c}",
            "runtimeArguments": [{ "type": "named", "name": "${cmd:d}", "value": "$${cmd:e}" }],
            "packageArguments": [{ "type": "positional", "valueHint": "${cmd:f}", "isRequired": true }],
            "environmentVariables": [{ "name": "${cmd:g}", "default": "1" }],
        }] });
        let expected = r#"command = "$${cmd:c}"
args = ["-y", "$${cmd:d}", "$$${cmd:e}", "$${cmd:a}@$${cmd:b}", "${__CMD_F_}"]"#;
        check(&package, expected);
    }

    #[test]
    fn what_cannot_be_used_is_named() {
        let json = json!({ "name": "x/y", "packages": [{ "registryType": "mcpb", "identifier": "y" }] });
        assert_eq!(read(&json).unwrap_err(), "`x/y` offers only what Toolyard cannot use: mcpb");
        assert!(!is_registry(&json!({ "name": "x", "version": "1" })));
    }
}
