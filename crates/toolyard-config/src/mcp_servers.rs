//! An `mcpServers` file, as many clients keep it, taken as it is. What other programs keep in such a file
//! does not concern us, so unknown keys are not errors here; unknown keys of a server are reported as warnings.

use std::collections::HashSet;

use toolyard_core::Sharing;
use toolyard_link::EraPin;
use toolyard_policy::pin::LockState;
use toolyard_proto::name::{LEAN, UpstreamId, sanitize_upstream_id};

use super::listen::DEFAULT;
use super::own::is_itself;
use super::reach::Reach;
use super::reader::{Field, Reader, Section, Unset};
use super::suggest::nearest;
use super::upstream::{ITSELF, OffUpstream, StartConfig, UpstreamConfig, Upstreams, warned_lean};

pub(crate) const EXAMPLE: &str =
    "write { \"mcpServers\": { \"files\": { \"command\": \"npx\", \"args\": [\"…\"] } } }";

/// How clients spell the way to reach a server.
const TYPES: [(&str, Kind); 7] = [
    ("stdio", Kind::Program),
    ("http", Kind::Http),
    ("streamable-http", Kind::Http),
    ("streamable_http", Kind::Http),
    ("streamableHttp", Kind::Http),
    ("streamablehttp", Kind::Http),
    ("sse", Kind::Sse),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Program,
    Http,
    Sse,
}

pub(crate) fn read(mut root: Section, reader: &mut Reader<'_>) -> Upstreams {
    // VS Code has another word for it.
    let Some(servers) = root.take("mcpServers").or_else(|| root.take("servers")) else {
        let keys: Vec<Field> = root.take_all();
        let near = keys.iter().find(|field| nearest(&field.key, ["mcpServers", "servers"]).is_some());
        let help = match near {
            Some(field) => format!("rename `{}` to `mcpServers`", field.key),
            None => EXAMPLE.into(),
        };
        reader.error(0, "mcpServers", "the key is missing", help);
        return Upstreams::default();
    };
    let fields = servers.section(reader).map(Section::take_all).unwrap_or_default();
    let mut taken = HashSet::new();
    let mut upstreams = Upstreams::default();
    for field in fields {
        let id = match UpstreamId::parse_configured(&field.key) {
            // An id that was free when the file was written stays.
            Ok(id) if id.as_str() == LEAN && !taken.contains(LEAN) => warned_lean(reader, &field, id),
            _ => sanitize_upstream_id(&field.key, |id| taken.contains(id)),
        };
        taken.insert(id.fold());
        let renamed_from = (id.as_str() != field.key).then(|| field.key.clone());
        if renamed_from.is_some() {
            reader.note(field.at, &field.path, format!("is called `{id}` here"));
        }
        let Some(mut section) = field.clone().section(reader) else { continue };
        let is_on = read_switches(reader, &mut section);
        let unset = if is_on { Unset::Disables("server") } else { Unset::Ignore };
        let (reach, missing) = reader.with_unset(unset, |reader| read_one(reader, section));
        if reach.as_ref().is_some_and(|reach| is_itself(reach, DEFAULT)) {
            field.warn(reader, format!("{ITSELF}, so it is left out"), "remove it, or ignore this");
            continue;
        }
        if !is_on || missing.is_some() {
            upstreams.off.push(OffUpstream { id, missing });
        } else if let Some(reach) = reach {
            upstreams.on.push(UpstreamConfig {
                oauth: crate::OAuthConfig::default(),
                id,
                renamed_from,
                reach,
                era: EraPin::Auto,
                timeout: None,
                connect_timeout: None,
                roots: Vec::new(),
                sharing: Sharing::default(),
                ping: false,
                start: StartConfig::default(),
                pins: None,
                lock: LockState::None,
                trusted: false,
                sampling: None,
            });
        }
    }
    upstreams
}

/// Some clients write `enabled`, some `disabled`.
fn read_switches(reader: &mut Reader<'_>, section: &mut Section) -> bool {
    let enabled = section.take("enabled").and_then(|field| field.flag(reader)).unwrap_or(true);
    let disabled = section.take("disabled").and_then(|field| field.flag(reader)).unwrap_or(false);
    enabled && !disabled
}

fn read_one(reader: &mut Reader<'_>, mut section: Section) -> Option<Reach> {
    let kinds = ["type", "transport"].map(|key| section.take(key));
    let is_sse = |field: &Field, reader: &mut Reader<'_>| field.choice(reader, &TYPES) == Some(Kind::Sse);
    let sse: Vec<Field> = kinds.into_iter().flatten().filter(|field| is_sse(field, reader)).collect();
    // VS Code and Cursor have another word for it.
    section.rename("envFile", "env_file");
    let mut reach = Reach::take(&mut section, reader);
    if let Some(field) = sse.first() {
        reach = reach.map(|reach| reach.only_sse(reader, field));
    }
    let (path, at) = (section.path.clone(), section.at);
    let (misspelt, left): (Vec<Field>, Vec<Field>) =
        section.take_all().into_iter().partition(|field| meant(&field.key).is_some());
    for field in &misspelt {
        let meant = meant(&field.key).unwrap_or_default();
        let help = format!("did you mean \"{meant}\"?");
        // Without these there is no server.
        if reach.is_none() && ["command", "url"].contains(&meant) {
            field.error(reader, "unknown key", help);
        } else {
            field.warn(reader, "unknown key, which is not used", help);
        }
    }
    let left: Vec<String> = left.iter().map(|field| format!("`{}`", field.key)).collect();
    if !left.is_empty() {
        let message = format!("{} of this server: not used here", left.join(", "));
        reader.warn(at, &path, message, "set limits and profiles in a TOML config instead");
    }
    reach
}

/// The key of a server that a misspelt one is meant to be.
fn meant(key: &str) -> Option<&'static str> {
    const KEYS: [&str; 7] = ["command", "args", "env", "envFile", "cwd", "url", "headers"];
    const OTHERS: [(&str, &str); 3] = [("environment", "env"), ("enviroment", "env"), ("arguments", "args")];
    let other = OTHERS.iter().find(|(other, _)| other.eq_ignore_ascii_case(key)).map(|(_, meant)| *meant);
    other.or_else(|| nearest(key, KEYS))
}
