//! `[upstreams.NAME]`: one server behind the gateway.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use data_encoding::HEXUPPER;
use toolyard_core::Sharing;
use toolyard_core::plan::SamplingPlan;
use toolyard_link::EraPin;
use toolyard_policy::pin::{Action, LockState};
use toolyard_proto::name::{LEAN, UpstreamId};

use super::interpolate::Missing;
use super::oauth::{self, OAuthConfig};
use super::own::is_itself;
use super::pins::read_action;
use super::reach::{Reach, absolute};
use super::reader::{Field, Reader, Section, Unset};

/// No call may take longer than this, so waiting longer without progress makes no sense.
const LONGEST_TIMEOUT: Duration = Duration::from_hours(1);
/// A program that does not speak is started twice, and the whole attempt has its own bound of 90 s.
/// A server that has not started by then never will.
const LONGEST_START: Duration = Duration::from_mins(30);
const LONGEST_IDLE: Duration = Duration::from_hours(24);
const LONGEST_CONNECT: Duration = Duration::from_secs(40);

/// The problem of a server that is the gateway itself.
pub(crate) const ITSELF: &str = "leads back to this gateway";

#[derive(Debug)]
pub struct UpstreamConfig {
    pub id: UpstreamId,
    /// Its name in the file, where that could not be the id.
    pub renamed_from: Option<String>,
    pub reach: Reach,
    pub era: EraPin,
    pub timeout: Option<Duration>,
    pub connect_timeout: Option<Duration>,
    pub roots: Vec<String>,
    pub sharing: Sharing,
    /// Whether it is pinged regularly.
    pub ping: bool,
    /// How the gateway signs in there.
    pub oauth: OAuthConfig,
    pub start: StartConfig,
    /// The action when its tools change, if it differs from `[pins]`.
    pub pins: Option<Action>,
    /// Its entry in the lock file beside its config.
    pub lock: LockState,
    /// Whether rules may permit something because of what it states about its tools.
    pub trusted: bool,
    /// The model that answers its sampling requests for clients that cannot.
    pub sampling: Option<SamplingPlan>,
}

/// When its process or connection is started and ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StartConfig {
    /// How long its start may take.
    pub timeout: Option<Duration>,
    /// How long it may be idle before it is stopped.
    pub stop_when_idle: Option<Duration>,
    /// Whether it is started by its first call only.
    pub lazy: bool,
}

/// The upstreams that are on, and those that are off.
#[derive(Debug, Default)]
pub struct Upstreams {
    pub on: Vec<UpstreamConfig>,
    pub off: Vec<OffUpstream>,
}

/// An upstream that is in the config and not started.
#[derive(Debug)]
pub struct OffUpstream {
    pub id: UpstreamId,
    /// The variable or secret that it needs and that has no value; nothing where it is switched off.
    pub missing: Option<Missing>,
}

impl OffUpstream {
    /// Why it is off, where the config does not switch it off itself.
    pub fn reason(&self) -> Option<String> {
        self.missing.as_ref().map(Missing::reason)
    }
}

impl Upstreams {
    pub fn ids(&self) -> impl Iterator<Item = &UpstreamId> {
        self.on.iter().map(|upstream| &upstream.id).chain(self.off.iter().map(|off| &off.id))
    }

    /// Adds the upstreams of another file, which replace those with the same id.
    pub(crate) fn lay_over(&mut self, other: Self) {
        let is_new = |id: &UpstreamId| other.ids().all(|new| new.fold() != id.fold());
        self.on.retain(|old| is_new(&old.id));
        self.off.retain(|old| is_new(&old.id));
        self.on.extend(other.on);
        self.off.extend(other.off);
    }
}

/// Reads all of them. Ids are unique without regard to case.
pub(crate) fn read(root: &mut Section, reader: &mut Reader<'_>, own: SocketAddr) -> Upstreams {
    let mut upstreams = Upstreams::default();
    let mut seen: Vec<(UpstreamId, usize)> = Vec::new();
    for (field, mut section) in root.named_sections(reader, "upstreams") {
        let id = read_id(reader, &field, &seen);
        let enabled = section.take("enabled").and_then(|field| field.flag(reader)).unwrap_or(true);
        // The secrets of a server that is switched off need not be set.
        let unset = if enabled { Unset::Disables("server") } else { Unset::Ignore };
        let (upstream, missing) = reader.with_unset(unset, |reader| read_one(reader, section, id.clone()));
        seen.extend(id.clone().map(|id| (id, field.at)));
        if upstream.as_ref().is_some_and(|upstream| is_itself(&upstream.reach, own)) {
            field.error(reader, ITSELF, "remove it: its tools would be listed again and again");
            continue;
        }
        if enabled && missing.is_none() {
            upstreams.on.extend(upstream);
        } else {
            upstreams.off.extend(id.map(|id| OffUpstream { id, missing }));
        }
    }
    upstreams
}

fn read_id(reader: &mut Reader<'_>, field: &Field, seen: &[(UpstreamId, usize)]) -> Option<UpstreamId> {
    let id = match UpstreamId::parse_configured(&field.key) {
        Ok(id) if id.as_str() == LEAN => warned_lean(reader, field, id),
        Ok(id) => id,
        Err(error) => {
            field.error(reader, error.to_string(), error.hint());
            return None;
        }
    };
    if let Some((other, at)) = seen.iter().find(|(other, _)| other.fold() == id.fold()) {
        let place = reader.place(*at);
        let message = format!("the id is taken by `{other}` in line {} (case does not count)", place.line);
        field.error(reader, message, format!("choose another, for instance `{id}-2`"));
        return None;
    }
    Some(id)
}

/// `lean` is the path of the lean view. An upstream of this id keeps it, and its user is warned.
pub(crate) fn warned_lean(reader: &mut Reader<'_>, field: &Field, id: UpstreamId) -> UpstreamId {
    let message = "`lean` is reserved by Toolyard: /mcp/lean shows this upstream instead of the lean view";
    field.warn(reader, message, "rename it to use the lean view");
    id
}

/// Checks everything, also where the id is already known to be wrong.
fn read_one(reader: &mut Reader<'_>, mut section: Section, id: Option<UpstreamId>) -> Option<UpstreamConfig> {
    let reach = Reach::take(&mut section, reader);
    let reach = read_transport(reader, &mut section, reach);
    let reach = match section.take("spare") {
        Some(field) => reach.map(|reach| reach.with_spare(reader, field)),
        None => reach,
    };
    let era = section.take("era").and_then(|field| read_era(reader, &field)).unwrap_or_default();
    let timeout = section.take("timeout").and_then(|field| field.duration(reader, LONGEST_TIMEOUT));
    let connect_timeout = section.take("connect_timeout");
    let connect_timeout = connect_timeout.and_then(|field| field.duration(reader, LONGEST_CONNECT));
    let sharing = section.take("sharing").and_then(|field| read_sharing(reader, &field)).unwrap_or_default();
    let roots = section.take("roots").map(|field| read_roots(reader, &field)).unwrap_or_default();
    let ping = section.take("ping").and_then(|field| field.flag(reader)).unwrap_or_default();
    let oauth =
        section.take("oauth").map(|field| read_oauth(reader, field, reach.as_ref())).unwrap_or_default();
    let start = read_start(&mut section, reader);
    let trusted = section.take("trusted").and_then(|field| field.flag(reader)).unwrap_or_default();
    let sampling = read_sampling(&mut section, reader);
    let on_change = section.take("pins").and_then(|field| read_action(reader, &field));
    section.finish(reader);
    Some(UpstreamConfig {
        id: id?,
        renamed_from: None,
        reach: reach?,
        era,
        timeout,
        connect_timeout,
        roots,
        sharing,
        ping,
        oauth,
        start,
        pins: on_change,
        lock: LockState::None,
        trusted,
        sampling,
    })
}

/// `sampling = "model:NAME"`, with its bounds.
fn read_sampling(section: &mut Section, reader: &mut Reader<'_>) -> Option<SamplingPlan> {
    let (field, tokens) = (section.take("sampling"), section.take("sampling_tokens"));
    let calls = section.take("sampling_per_call");
    let max_tokens = tokens.and_then(|field| at_least_one(reader, &field)).unwrap_or(4_096);
    let per_call = calls.and_then(|field| at_least_one(reader, &field)).unwrap_or(8);
    let field = field?;
    let text = field.text(reader)?;
    let Some(model) = text.strip_prefix("model:").filter(|model| !model.is_empty()) else {
        field.error(reader, "is not a model", "write \"model:NAME\" with a model of the pack `models`");
        return None;
    };
    Some(SamplingPlan { model: model.to_owned(), max_tokens, per_call })
}

fn at_least_one(reader: &mut Reader<'_>, field: &Field) -> Option<u32> {
    let number = u32::try_from(field.integer(reader)?).ok().filter(|number| *number > 0);
    if number.is_none() {
        field.error(reader, "is out of range", "write a whole number from 1 on");
    }
    number
}

/// Only a server over HTTP has sign-ins.
fn read_oauth(reader: &mut Reader<'_>, field: Field, reach: Option<&Reach>) -> OAuthConfig {
    if let Some(Reach::Program(_) | Reach::Socket(_)) = reach {
        field.error(reader, "goes only with an http URL", "remove it: a program gets its secrets by `env`");
        return OAuthConfig::default();
    }
    oauth::read(field, reader)
}

fn read_start(section: &mut Section, reader: &mut Reader<'_>) -> StartConfig {
    let timeout = section.take("start_timeout").and_then(|field| field.duration(reader, LONGEST_START));
    let stop_when_idle =
        section.take("stop_when_idle").and_then(|field| field.duration(reader, LONGEST_IDLE));
    let lazy = section.take("lazy").and_then(|field| field.flag(reader)).unwrap_or_default();
    StartConfig { timeout, stop_when_idle, lazy }
}

/// Which HTTP transport is spoken is found out, unless it is given.
fn read_transport(reader: &mut Reader<'_>, section: &mut Section, reach: Option<Reach>) -> Option<Reach> {
    let Some(field) = section.take("transport") else { return reach };
    // `stdio` and `http` are what `toolyard add --transport` takes; both are found out anyway.
    let choices = [("auto", false), ("http", false), ("sse", true), ("stdio", false)];
    match field.choice(reader, &choices) {
        Some(true) => reach.map(|reach| reach.only_sse(reader, &field)),
        _ => reach,
    }
}

fn read_era(reader: &mut Reader<'_>, field: &Field) -> Option<EraPin> {
    field.choice(reader, &[("auto", EraPin::Auto), ("legacy", EraPin::Legacy), ("modern", EraPin::Modern)])
}

fn read_sharing(reader: &mut Reader<'_>, field: &Field) -> Option<Sharing> {
    field.choice(reader, &[("shared", Sharing::Shared), ("client", Sharing::Client)])
}

fn read_roots(reader: &mut Reader<'_>, field: &Field) -> Vec<String> {
    let items = field.items(reader);
    items.iter().filter_map(|item| Some(root_uri(reader.file.folder(), &item.expanded(reader)?))).collect()
}

/// Roots are `file://` URIs on the wire; a plain path is what people have at hand.
fn root_uri(folder: &Path, text: &str) -> String {
    if text.contains("://") {
        return text.to_owned();
    }
    let mut uri = String::from("file://");
    for byte in absolute(&folder.join(text)).as_os_str().as_encoded_bytes() {
        if byte.is_ascii_alphanumeric() || b"/-._~".contains(byte) {
            uri.push(char::from(*byte));
        } else {
            uri.push('%');
            uri.push_str(&HEXUPPER.encode(&[*byte]));
        }
    }
    uri
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_becomes_a_file_uri() {
        let check = |text: &str, expected: &str| assert_eq!(root_uri(Path::new("/etc"), text), expected);
        check("/srv/a b", "file:///srv/a%20b");
        check("sub", "file:///etc/sub");
        check("file:///x", "file:///x");
    }
}
