//! The JSON Schema of the config, for editors. It is found out from the reader itself, by asking it about probes: which
//! keys it expects in a section, and which kinds of values it accepts for each. So it is never out of date.

use std::collections::BTreeSet;
use std::path::PathBuf;

use serde_json::{Map, Value as Json, json};

use super::{Problem, ProblemKind, ReadContext, Role, Source};

/// A key and a value that mean nothing to the reader.
const PROBE: &str = "toolyard-probe";
/// Names of sections, one of which every section accepts.
const NAMES: [&str; 2] = ["toolyard-probe", "toolyard:probe"];
/// Keys that decide whether the reader looks at others.
const BESIDE: [&str; 2] = ["command = \"x\"", "url = \"https://x.example/mcp\""];
/// How deep sections are looked into.
const DEEPEST: usize = 6;

/// Each kind of value: as TOML and in a JSON Schema.
const KINDS: [(&str, &str); 6] = [
    ("\"toolyard-probe\"", "string"),
    ("1", "integer"),
    ("1.5", "number"),
    ("true", "boolean"),
    ("[]", "array"),
    ("{}", "object"),
];

/// The schema of a TOML config that is the user's own.
pub fn schema(context: &ReadContext<'_>) -> Json {
    let prober = Prober { context };
    let mut root = prober.section(&Spot::root(), 0).unwrap_or_else(|| json!({}));
    root["$schema"] = json!("https://json-schema.org/draft/2020-12/schema");
    root["title"] = json!("The config of Toolyard");
    root["properties"]["packs"] = packs(context);
    root
}

fn packs(context: &ReadContext<'_>) -> Json {
    let pack = |pack: &dyn super::PackSchema| {
        let mut properties: Map<String, Json> = Map::new();
        properties.insert("enabled".into(), json!({ "type": "boolean" }));
        for (key, description) in pack.keys() {
            properties.insert(key.into(), json!({ "description": description }));
        }
        json!({
            "type": "object", "description": pack.summary(), "properties": properties, "additionalProperties": false,
        })
    };
    let packs = &context.packs.packs;
    let sections: Map<String, Json> = packs.iter().map(|one| (one.name().into(), pack(&**one))).collect();
    json!({ "type": "object", "properties": sections })
}

struct Prober<'a> {
    context: &'a ReadContext<'a>,
}

/// A place in a config.
#[derive(Clone)]
struct Spot {
    /// The text before a value, and after it.
    before: String,
    after: String,
    /// How the reader names the place.
    path: String,
}

impl Spot {
    fn root() -> Self {
        Self { before: String::new(), after: String::new(), path: String::new() }
    }

    fn below(&self, key: &str) -> Self {
        let quoted = if key.contains(':') { format!("{key:?}") } else { key.to_owned() };
        let path = if self.path.is_empty() { quoted.clone() } else { format!("{}.{quoted}", self.path) };
        if self.before.ends_with(['[', '{']) {
            let after = format!("}}{}", self.after);
            return Self { before: format!("{}{{ {quoted} = ", self.before), after, path };
        }
        let before = match self.before.strip_suffix(" = ") {
            None => format!("{quoted} = "),
            Some(keys) => format!("{keys}.{quoted} = "),
        };
        Self { before, after: self.after.clone(), path }
    }

    /// A line that sets another key of the named section that this place is in.
    fn sibling(&self, line: &str) -> Option<String> {
        let mut keys = self.before.split(" = ").next()?.split('.');
        Some(format!("{}.{}.{line}", keys.next()?, keys.next()?))
    }

    /// The first of a list.
    fn first(&self) -> Self {
        let (before, after) = (format!("{}[", self.before), format!("]{}", self.after));
        Self { before, after, path: format!("{}[0]", self.path) }
    }
}

impl Prober<'_> {
    /// The reader's problems with a value at a place, alone or together with the key that it depends on.
    fn problems(&self, at: &Spot, value: &str) -> Vec<Problem> {
        let source = Source { path: PathBuf::from("config.toml"), role: Role::Own };
        let text = format!("{}{value}{}\n", at.before, at.after);
        let beside = BESIDE.map(|key| at.sibling(key).unwrap_or_default());
        let mut texts = vec![text.clone()];
        texts.extend(beside.iter().filter(|other| !other.is_empty()).map(|other| format!("{other}\n{text}")));
        texts.into_iter().flat_map(|text| super::check(&source, text, &[], self.context)).collect()
    }

    /// The keys of a section; `None` where the reader does not know them beforehand.
    fn keys(&self, at: &Spot) -> Option<Vec<String>> {
        let probe = at.below(PROBE);
        let problems = self.problems(&probe, "1");
        let found = problems.iter().find(|problem| problem.key == probe.path)?;
        let Some(ProblemKind::UnknownKey(known)) = found.kind.as_deref() else { return None };
        let mut known: Vec<String> = known.iter().map(|&key| key.to_owned()).collect();
        known.sort();
        Some(known)
    }

    fn section(&self, at: &Spot, depth: usize) -> Option<Json> {
        let keys = self.keys(at)?;
        let property = |key: &String| (key.clone(), self.value(&at.below(key), depth + 1));
        let properties: Map<String, Json> = keys.iter().map(property).collect();
        Some(json!({ "type": "object", "properties": properties, "additionalProperties": false }))
    }

    /// The schema of a key's value.
    fn value(&self, at: &Spot, depth: usize) -> Json {
        let mut forms = Vec::new();
        for (value, name) in KINDS {
            let problems = self.problems(at, value);
            let own = || problems.iter().filter(|problem| problem.key == at.path);
            if own().any(|problem| problem.is(&ProblemKind::WrongKind)) {
                continue;
            }
            forms.push(match name {
                "string" => own().find_map(choices).unwrap_or_else(|| json!({ "type": "string" })),
                "array" => self.list(at, depth),
                "object" => self.table(at, depth),
                other => json!({ "type": other }),
            });
        }
        match forms.len() {
            1 => forms.remove(0),
            // Where the reader accepts every kind, it does not look at the value.
            n if n == KINDS.len() => json!({}),
            _ => json!({ "anyOf": forms }),
        }
    }

    fn list(&self, at: &Spot, depth: usize) -> Json {
        let first = at.first();
        if depth >= DEEPEST {
            return json!({ "type": "array" });
        }
        let items = self.section(&first, depth).unwrap_or_else(|| self.value(&first, depth + 1));
        json!({ "type": "array", "items": items })
    }

    /// A section with known keys, or one whose keys are names.
    fn table(&self, at: &Spot, depth: usize) -> Json {
        if depth >= DEEPEST {
            return json!({ "type": "object" });
        }
        if let Some(section) = self.section(at, depth) {
            return section;
        }
        let name = NAMES.iter().find(|name| self.keys(&at.below(name)).is_some()).unwrap_or(&PROBE);
        json!({ "type": "object", "additionalProperties": self.value(&at.below(name), depth + 1) })
    }
}

/// The words that a key may have, if it may have only these.
fn choices(problem: &Problem) -> Option<Json> {
    let Some(ProblemKind::NotAChoice(words)) = problem.kind.as_deref() else { return None };
    let words: BTreeSet<&String> = words.iter().collect();
    Some(json!({ "enum": words }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::KnownPacks;

    fn made() -> Json {
        let packs = KnownPacks::default();
        let (variables, secrets) = (|_: &str| None, |_: &str| Ok(None));
        let context = ReadContext {
            variables: &variables,
            secrets: &secrets,
            commands: None,
            packs: &packs,
            is_for_running: false,
        };
        schema(&context)
    }

    #[test]
    fn the_schema_has_the_keys_and_kinds_of_the_reader() {
        let schema = made();
        let upstream = &schema["properties"]["upstreams"]["additionalProperties"]["properties"];
        assert_eq!(upstream["command"], json!({ "type": "string" }), "{schema:#}");
        assert_eq!(upstream["args"], json!({ "type": "array", "items": { "type": "string" } }));
        assert_eq!(upstream["enabled"], json!({ "type": "boolean" }));
        assert_eq!(upstream["era"], json!({ "enum": ["auto", "legacy", "modern"] }));
        assert_eq!(upstream["env"]["additionalProperties"], json!({ "type": "string" }));
        let profile = &schema["properties"]["profiles"]["additionalProperties"];
        assert_eq!(profile["properties"]["exposure"], json!({ "enum": ["full", "search"] }));
        assert_eq!(profile["additionalProperties"], json!(false));
        let tool = &schema["properties"]["tools"]["additionalProperties"]["properties"];
        assert!(tool["timeout"].is_object() && tool["fallback"].is_object(), "{tool:#}");
        assert_eq!(schema["properties"]["rules"]["type"], "array");
    }
}
