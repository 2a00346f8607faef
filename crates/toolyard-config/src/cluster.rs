//! `[cluster]`: how this gateway and others work as one.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use super::listen::read_address;
use super::reach::absolute;
use super::reader::{Field, Reader, Section};
use super::tree::Value;

const SHORTEST_KEY: usize = 32;
const SHORTEST_LEASE: Duration = Duration::from_secs(30);
/// The longest `lease` that is accepted.
pub const LONGEST_LEASE: Duration = Duration::from_hours(1);
/// Long enough for NATS to be restarted or to choose another leader meanwhile.
const LEASE: Duration = Duration::from_secs(90);
const LONGEST_NAME: usize = 63;
const MOST_REPLICAS: i64 = 5;

/// A cluster to join.
#[derive(Clone, PartialEq, Eq)]
pub struct ClusterConfig {
    pub nats: Vec<String>,
    /// The name of this node; the host's name if not given.
    pub node: Option<String>,
    /// The secret that all nodes share.
    pub key: String,
    pub credentials: ClusterCredentials,
    pub require_tls: bool,
    pub ca: Option<PathBuf>,
    /// The certificate of this node towards NATS, and its key.
    pub certificate: Option<(PathBuf, PathBuf)>,
    pub prefix: String,
    pub domain: Option<String>,
    pub replicas: usize,
    /// Where other nodes connect.
    pub listen: Option<SocketAddr>,
    pub advertise: Option<String>,
    pub lease: Duration,
    /// Patterns of the ids of upstreams that other nodes may see.
    pub export: Vec<String>,
    /// Whether the audit is copied into a stream of NATS.
    pub audit: bool,
}

/// How this node proves its identity to NATS.
#[derive(Clone, PartialEq, Eq)]
pub enum ClusterCredentials {
    /// As in the URL.
    Url,
    /// The seed of an `NKey`.
    NKey(String),
    /// A file with a JWT and a seed.
    File(PathBuf),
}

/// Without its secrets.
impl fmt::Debug for ClusterConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClusterConfig")
            .field("node", &self.node)
            .field("prefix", &self.prefix)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for ClusterCredentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ClusterCredentials")
    }
}

/// A project file may not join its user's gateway to others.
pub(crate) fn refuse(root: &mut Section, reader: &mut Reader<'_>) -> Option<ClusterConfig> {
    if let Some(field) = root.take("cluster") {
        let help = "move it to your own config, or use this file with --config";
        field.warn(reader, "is not used: a project file cannot join a cluster", help);
    }
    None
}

pub(crate) fn read(field: Field, reader: &mut Reader<'_>) -> Option<ClusterConfig> {
    let (place, mut section) = (field.clone(), field.section(reader)?);
    let nats = section.take("nats").map(|field| read_servers(reader, &field));
    let key_field = section.take("key");
    let key = key_field.as_ref().and_then(|field| read_key(reader, field));
    let node = section.take("node").and_then(|field| read_name(reader, &field));
    let prefix = section.take("prefix").and_then(|field| read_name(reader, &field));
    let domain = section.take("domain").and_then(|field| read_name(reader, &field));
    let credentials = read_credentials(&mut section, reader);
    let require_tls = section.take("require_tls").and_then(|field| field.flag(reader)).unwrap_or(false);
    let ca = section.take("ca").and_then(|field| read_path(reader, &field));
    let certificate = read_certificate(&mut section, reader);
    let replicas = section.take("replicas").and_then(|field| read_replicas(reader, &field)).unwrap_or(1);
    let listen = section.take("listen").and_then(|field| read_address(reader, &field));
    let advertise = section.take("advertise").and_then(|field| field.expanded(reader));
    let lease =
        section.take("lease").and_then(|field| field.duration_within(reader, SHORTEST_LEASE, LONGEST_LEASE));
    let audit = section.take("audit").and_then(|field| field.flag(reader)).unwrap_or(false);
    let export = section.take("export").map(|field| field.expanded_list(reader));
    section.finish(reader);
    if nats.is_none() {
        place.error(reader, "`nats` is missing", "write nats = \"nats://127.0.0.1:4222\"");
    }
    if key_field.is_none() {
        let help = "make one with `toolyard token --new-secret` and pass it by a variable: key = \"${TOOLYARD_CLUSTER_KEY}\"";
        place.error(reader, "`key` is missing", help);
    }
    Some(ClusterConfig {
        nats: nats?,
        node,
        key: key?,
        credentials,
        require_tls,
        ca,
        certificate,
        prefix: prefix.unwrap_or_else(|| "toolyard".to_owned()),
        domain,
        replicas,
        listen,
        advertise,
        lease: lease.unwrap_or(LEASE),
        export: export.unwrap_or_else(|| vec!["*".to_owned()]),
        audit,
    })
}

/// One URL, or a list of them.
fn read_servers(reader: &mut Reader<'_>, field: &Field) -> Vec<String> {
    let servers = match field.value() {
        Value::List(_) => field.expanded_list(reader),
        _ => field.expanded(reader).into_iter().collect(),
    };
    for server in &servers {
        if !["nats://", "tls://"].iter().any(|scheme| server.starts_with(scheme)) {
            field.error(
                reader,
                format!("\"{server}\" is not the address of a NATS server"),
                "write nats://HOST:PORT or tls://HOST:PORT",
            );
        }
    }
    servers
}

fn read_key(reader: &mut Reader<'_>, field: &Field) -> Option<String> {
    let key = field.expanded(reader)?;
    if key.len() < SHORTEST_KEY {
        let message = format!("expected at least {SHORTEST_KEY} characters");
        field.error(reader, message, "make one with `toolyard token --new-secret`");
        return None;
    }
    Some(key)
}

/// It is part of keys and of the names of buckets.
fn read_name(reader: &mut Reader<'_>, field: &Field) -> Option<String> {
    let name = field.expanded(reader)?;
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    if name.is_empty() || name.len() > LONGEST_NAME || !name.chars().all(is_allowed) {
        let message = format!("\"{name}\" is not a name");
        field.error(reader, message, format!("use up to {LONGEST_NAME} letters, digits, `-` and `_`"));
        return None;
    }
    Some(name)
}

fn read_credentials(section: &mut Section, reader: &mut Reader<'_>) -> ClusterCredentials {
    let (nkey, creds) = (section.take("nkey"), section.take("creds"));
    if let (Some(_), Some(creds)) = (&nkey, &creds) {
        creds.error(reader, "`nkey` and `creds` exclude each other", "remove one of them");
    }
    if let Some(seed) = nkey.and_then(|field| field.expanded(reader)) {
        return ClusterCredentials::NKey(seed);
    }
    let file = creds.and_then(|field| read_path(reader, &field));
    file.map_or(ClusterCredentials::Url, ClusterCredentials::File)
}

fn read_certificate(section: &mut Section, reader: &mut Reader<'_>) -> Option<(PathBuf, PathBuf)> {
    let (certificate, key) = (section.take("tls_cert"), section.take("tls_key"));
    if let (Some(field), None) | (None, Some(field)) = (&certificate, &key) {
        field.error(reader, "`tls_cert` and `tls_key` belong together", "set both, or neither");
    }
    let certificate = certificate.and_then(|field| read_path(reader, &field))?;
    Some((certificate, key.and_then(|field| read_path(reader, &field))?))
}

fn read_path(reader: &mut Reader<'_>, field: &Field) -> Option<PathBuf> {
    let text = field.expanded(reader)?;
    Some(absolute(&reader.file.folder().join(reader.below_home(text))))
}

fn read_replicas(reader: &mut Reader<'_>, field: &Field) -> Option<usize> {
    let number = field.integer(reader)?;
    let checked = usize::try_from(number).ok().filter(|_| (1..=MOST_REPLICAS).contains(&number));
    if checked.is_none() {
        let message = format!("expected a number from 1 to {MOST_REPLICAS}, found {number}");
        field.error(reader, message, "3 survives the loss of one NATS server");
    }
    checked
}
