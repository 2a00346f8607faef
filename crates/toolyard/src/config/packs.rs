//! `[packs.NAME]`: the keys of a pack that comes with the program. What they may hold is known by the pack.

use serde_json::{Map, Value as Json};
use toolyard_tool::{Pack, Wrong};

use super::reach::absolute;
use super::reader::{Field, Reader, Section};
use super::suggest::nearest;
use super::tree::Value;
use crate::packs;

/// What a file says of a pack.
pub(crate) struct PackConfig {
    pub(crate) name: &'static str,
    pub(crate) enabled: bool,
    /// Its own keys.
    pub(crate) keys: Map<String, Json>,
}

pub(super) fn read(root: &mut Section, reader: &mut Reader<'_>) -> Vec<PackConfig> {
    let sections = root.named_sections(reader, "packs");
    sections.into_iter().filter_map(|(field, section)| read_one(reader, &field, section)).collect()
}

fn read_one(reader: &mut Reader<'_>, field: &Field, section: Section) -> Option<PackConfig> {
    let pack = packs::find(&field.key);
    if pack.is_none() {
        report_unknown(reader, field);
    }
    Some(read_keys(reader, pack?, field, section))
}

fn read_keys(
    reader: &mut Reader<'_>,
    pack: &'static Pack,
    field: &Field,
    mut section: Section,
) -> PackConfig {
    let enabled = section.take("enabled").and_then(|field| field.flag(reader)).unwrap_or(true);
    // Somebody who switches a pack off need not have its secrets at hand.
    reader.tolerate_unset(!enabled);
    let fields: Vec<Field> = pack.keys().iter().filter_map(|key| section.take(key.name())).collect();
    let values: Vec<Option<Json>> = fields.iter().map(|field| json(reader, field)).collect();
    reader.tolerate_unset(false);
    section.finish(reader);
    let all_read = values.iter().all(Option::is_some);
    let folder = absolute(reader.file.folder());
    let keys = fields.iter().zip(values).filter_map(|(field, value)| {
        let value = pack.keys().iter().find(|key| key.name() == field.key)?.within(&folder, value?);
        Some((field.key.clone(), value))
    });
    let keys = keys.collect();
    if enabled && all_read {
        check(reader, pack, field, &fields, &keys);
    }
    PackConfig { name: pack.name(), enabled, keys }
}

fn report_unknown(reader: &mut Reader<'_>, field: &Field) {
    let names = || packs::all().iter().map(Pack::name);
    let help = match nearest(&field.key, names()) {
        Some(name) => format!("did you mean `{name}`?"),
        None => format!("the packs are: {}", names().collect::<Vec<_>>().join(", ")),
    };
    let what = packs::not_here(&field.key).unwrap_or_else(|| format!("there is no pack `{}`", field.key));
    field.error(reader, what, help);
}

/// Each problem is reported at its key, or at the section where the key is missing.
fn check(reader: &mut Reader<'_>, pack: &Pack, section: &Field, fields: &[Field], keys: &Map<String, Json>) {
    for Wrong { key, what } in pack.check(&Json::Object(keys.clone())) {
        let top = key.split(['.', '[']).next().unwrap_or_default();
        let about = pack.keys().iter().find(|known| known.name() == top).map_or("", |known| known.about());
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
    use std::path::PathBuf;

    use serde_json::json;
    use toolyard_tool::schemars::JsonSchema;
    use toolyard_tool::{ToolSet, path};

    use super::super::tree::File;
    use super::*;

    #[derive(serde::Deserialize, JsonSchema)]
    #[schemars(crate = "toolyard_tool::schemars")]
    #[expect(dead_code, reason = "only its keys matter")]
    struct Config {
        /// Where it is.
        #[schemars(transform = path)]
        root: PathBuf,
        /// More places.
        #[schemars(transform = path)]
        more: Option<Vec<PathBuf>>,
        /// What it is called.
        name: Option<String>,
        /// How fast it goes.
        pace: Option<f64>,
    }

    fn read_file(text: &str) -> (Map<String, Json>, usize) {
        let pack: &'static Pack =
            Box::leak(Box::new(Pack::with_config("files", "Files", |_: Config| ToolSet::new("files", "1"))));
        let file = File { path: "/etc/yard/toolyard.toml".into(), text: text.into() };
        let variables = |name: &str| (name == "WHERE").then(|| "music".to_owned());
        let mut reader = Reader::new(&file, &variables);
        let mut root = Section::root(file.entries().unwrap());
        let (field, section) = root.named_sections(&mut reader, "packs").remove(0);
        let read = read_keys(&mut reader, pack, &field, section);
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
