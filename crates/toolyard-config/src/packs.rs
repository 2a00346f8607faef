//! `[packs.NAME]`: the keys of a pack that comes with the program. What they may hold is known by the pack.

use std::fmt;
use std::path::Path;

use serde_json::{Map, Value as Json};

use super::interpolate::Missing;
use super::reach::absolute;
use super::reader::{Field, Reader, Section, Unset};
use super::suggest::nearest;
use super::tree::Value;

/// The packs that a config may name. The program has them; this crate knows only what their sections may hold.
#[derive(Default)]
pub struct KnownPacks {
    pub packs: Vec<Box<dyn PackSchema>>,
    /// Packs that this program does not have, each with the reason.
    pub missing: Vec<(&'static str, String)>,
}

/// The keys of one pack's section.
pub trait PackSchema: Send + Sync {
    fn name(&self) -> &'static str;
    fn summary(&self) -> &str;
    /// Each key with its description.
    fn keys(&self) -> Vec<(&'static str, &'static str)>;
    /// The value of a key, where relative paths in it start from this folder.
    fn within(&self, key: &str, folder: &Path, value: Json) -> Json;
    fn check(&self, config: &Json) -> Vec<PackProblem>;
}

/// A mistake in the config of a pack.
#[derive(Debug)]
pub struct PackProblem {
    /// The key, with what is below it (`folders[1]`); empty where no single key is to blame.
    pub key: String,
    pub what: String,
}

impl KnownPacks {
    pub(crate) fn names(&self) -> impl Iterator<Item = &'static str> {
        self.packs.iter().map(|pack| pack.name())
    }

    fn find(&self, name: &str) -> Option<&dyn PackSchema> {
        self.packs.iter().find(|pack| pack.name() == name).map(AsRef::as_ref)
    }
}

impl fmt::Debug for KnownPacks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.names()).finish()
    }
}

/// Its keys may hold secrets.
impl fmt::Debug for PackConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PackConfig")
            .field("name", &self.name)
            .field("enabled", &self.enabled)
            .finish_non_exhaustive()
    }
}

/// The section of a pack in a file.
pub struct PackConfig {
    pub name: &'static str,
    pub enabled: bool,
    /// The variable or secret that it needs and that has no value.
    pub missing: Option<Missing>,
    /// Its own keys.
    pub keys: Map<String, Json>,
}

pub(crate) fn read(root: &mut Section, reader: &mut Reader<'_>) -> Vec<PackConfig> {
    let sections = root.named_sections(reader, "packs");
    sections.into_iter().filter_map(|(field, section)| read_one(reader, &field, section)).collect()
}

fn read_one(reader: &mut Reader<'_>, field: &Field, section: Section) -> Option<PackConfig> {
    let packs = reader.packs;
    let pack = packs.find(&field.key);
    if pack.is_none() {
        report_unknown(reader, field);
    }
    Some(read_keys(reader, pack?, field, section))
}

fn read_keys(
    reader: &mut Reader<'_>,
    pack: &dyn PackSchema,
    field: &Field,
    mut section: Section,
) -> PackConfig {
    let enabled = section.take("enabled").and_then(|field| field.flag(reader)).unwrap_or(true);
    let fields: Vec<Field> = pack.keys().iter().filter_map(|(key, _)| section.take(key)).collect();
    // The secrets of a pack that is switched off need not be set.
    let unset = if enabled { Unset::Disables("pack") } else { Unset::Ignore };
    let read = |reader: &mut Reader<'_>| fields.iter().map(|field| json(reader, field)).collect();
    let (values, missing): (Vec<Option<Json>>, _) = reader.with_unset(unset, read);
    section.finish(reader);
    let all_read = values.iter().all(Option::is_some);
    let folder = absolute(reader.file.folder());
    let keys = fields
        .iter()
        .zip(values)
        .filter_map(|(field, value)| Some((field.key.clone(), pack.within(&field.key, &folder, value?))));
    let keys = keys.collect();
    if enabled && all_read {
        check(reader, pack, field, &fields, &keys);
    }
    PackConfig { name: pack.name(), enabled, missing, keys }
}

fn report_unknown(reader: &mut Reader<'_>, field: &Field) {
    let packs = reader.packs;
    let help = match nearest(&field.key, packs.names()) {
        Some(name) => format!("did you mean `{name}`?"),
        None => format!("the packs are: {}", packs.names().collect::<Vec<_>>().join(", ")),
    };
    let missing = packs.missing.iter().find(|(name, _)| *name == field.key).map(|(_, why)| why.clone());
    let what = missing.unwrap_or_else(|| format!("there is no pack `{}`", field.key));
    field.error(reader, what, help);
}

/// Each problem is reported at its key, or at the section where the key is missing.
fn check(
    reader: &mut Reader<'_>,
    pack: &dyn PackSchema,
    section: &Field,
    fields: &[Field],
    keys: &Map<String, Json>,
) {
    for PackProblem { key, what } in pack.check(&Json::Object(keys.clone())) {
        let top = key.split(['.', '[']).next().unwrap_or_default();
        let keys_of_pack = pack.keys();
        let about = keys_of_pack.iter().find(|(name, _)| *name == top).map_or("", |(_, about)| *about);
        let help = if about.is_empty() { pack.summary() } else { about };
        match fields.iter().find(|field| field.key == top) {
            Some(field) => {
                let below = key.strip_prefix(top).unwrap_or_default();
                reader.error(field.at, &format!("{}{below}", field.path), what, help);
            }
            None if key.is_empty() => section.error(reader, what, help),
            None => reader.error(section.at, &format!("{}.{key}", section.path), what, help),
        }
    }
}

/// The value in a form that the pack reads; variables in texts are expanded.
fn json(reader: &mut Reader<'_>, field: &Field) -> Option<Json> {
    match field.value() {
        Value::Text(_) => field.expanded(reader).map(Json::from),
        Value::Integer(integer) => Some((*integer).into()),
        Value::Fraction(number) => Some((*number).into()),
        Value::Flag(flag) => Some((*flag).into()),
        Value::List(_) => field.items(reader).iter().map(|item| json(reader, item)).collect(),
        Value::Table(_) => {
            let fields = field.clone().section(reader)?.take_all();
            fields.iter().map(|field| Some((field.key.clone(), json(reader, field)?))).collect()
        }
        Value::Other(kind) => {
            field.error(
                reader,
                format!("expected another kind of value, found {kind}"),
                "no pack takes these",
            );
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::ReadContext;
    use crate::tree::File;

    /// A pack with two keys for paths, a name and a number.
    struct Files;

    impl PackSchema for Files {
        fn name(&self) -> &'static str {
            "files"
        }

        fn summary(&self) -> &'static str {
            "Files"
        }

        fn keys(&self) -> Vec<(&'static str, &'static str)> {
            vec![("root", "Where it is."), ("more", "More places."), ("name", ""), ("pace", "")]
        }

        fn within(&self, key: &str, folder: &Path, value: Json) -> Json {
            match value {
                Json::String(text) if key != "name" => folder.join(text).to_string_lossy().into(),
                Json::Array(items) => items.into_iter().map(|item| self.within(key, folder, item)).collect(),
                other => other,
            }
        }

        fn check(&self, config: &Json) -> Vec<PackProblem> {
            let is_wrong = config.get("pace").is_some_and(|pace| !pace.is_number());
            let problem = || PackProblem { key: "pace".into(), what: "expected a number".into() };
            is_wrong.then(problem).into_iter().collect()
        }
    }

    fn read_file(text: &str) -> (Map<String, Json>, usize) {
        let packs = KnownPacks { packs: vec![Box::new(Files)], missing: Vec::new() };
        let file = File { path: "/etc/yard/toolyard.toml".into(), text: text.into() };
        let variables = |name: &str| (name == "WHERE").then(|| "music".to_owned());
        let secrets = |_: &str| Ok(None);
        let context = ReadContext {
            variables: &variables,
            secrets: &secrets,
            commands: None,
            packs: &packs,
            is_for_running: false,
        };
        let mut reader = Reader::new(&file, &context);
        let mut root = Section::root(file.entries().unwrap());
        let read = read(&mut root, &mut reader).remove(0);
        (read.keys, reader.finish().len())
    }

    #[test]
    fn relative_paths_start_from_the_folder_of_the_file() {
        let text = "[packs.files]\nroot = \"${WHERE}/a\"\nmore = [\"b\", \"/c\"]\nname = \"d\"\n";
        let (keys, problems) = read_file(text);
        assert_eq!(problems, 0);
        let expected = json!({ "root": "/etc/yard/music/a", "more": ["/etc/yard/b", "/c"], "name": "d" });
        assert_eq!(Json::Object(keys), expected);
    }

    #[test]
    fn a_key_may_hold_a_fraction() {
        let pace = |text: &str| read_file(&format!("[packs.files]\nroot = \"/\"\npace = {text}\n"));
        for (text, expected) in [("0.5", json!(0.5)), ("1_000.25", json!(1000.25)), ("2", json!(2))] {
            let (keys, problems) = pace(text);
            assert_eq!((&keys["pace"], problems), (&expected, 0), "{text}");
        }
        assert_eq!(
            read_file("{ \"packs\": { \"files\": { \"root\": \"/\", \"pace\": 0.5 } } }").0["pace"],
            0.5
        );
        for wrong in ["inf", "nan", "\"fast\""] {
            assert_eq!(pace(wrong).1, 1, "{wrong}");
        }
    }
}
