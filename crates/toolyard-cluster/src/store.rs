//! The store over NATS `JetStream`: two buckets, one of leases and one of owners, and the operations of ownership on
//! them. Each operation has a deadline; one without an answer counts as possibly carried out.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_nats::connection::State;
use async_nats::jetstream::Context;
use async_nats::jetstream::kv::{self, CreateErrorKind, Operation, UpdateErrorKind, Watch};
use async_nats::jetstream::stream::LastRawMessageErrorKind;
use async_nats::{ConnectOptions, Event};
use bytes::Bytes;
use tokio::sync::Notify;
use tokio::time::timeout;
use toolyard_model::Keys;

use crate::ownership::{Member, Op, Outcome};
use crate::record::{self, FENCED, NodeRecord, OwnerRecord};
use crate::shared::Problem;

/// How long one operation may take.
const DEADLINE: Duration = Duration::from_secs(4);
/// Leases and marks of fenced members are deleted after this. It is longer than any member stays known, so that a
/// silent one is fenced first.
pub const LEASES_KEPT: Duration = Duration::from_hours(8);
/// How soon a server that does not answer is noticed. The default of the client is a minute.
const PING: Duration = Duration::from_secs(3);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// How NATS is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NatsSettings {
    pub servers: Vec<String>,
    pub credentials: Credentials,
    /// Whether a connection without TLS is refused.
    pub require_tls: bool,
    /// A file of root certificates, instead of the system's.
    pub ca: Option<PathBuf>,
    /// The certificate of this node and its key.
    pub certificate: Option<(PathBuf, PathBuf)>,
    /// What the names of buckets and subjects begin with.
    pub prefix: String,
    /// The `JetStream` domain, where it is reached through a leaf node.
    pub domain: Option<String>,
    pub replicas: usize,
}

/// How this node proves its identity to NATS.
#[derive(Clone, Default, PartialEq, Eq)]
pub enum Credentials {
    /// As in the URL, or not at all.
    #[default]
    None,
    /// The seed of an `NKey`.
    NKey(String),
    /// A file with a JWT and the seed of its key.
    File(PathBuf),
}

impl std::fmt::Debug for Credentials {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::None => f.write_str("None"),
            Self::NKey(_) => f.write_str("NKey"),
            Self::File(path) => f.debug_tuple("File").field(path).finish(),
        }
    }
}

/// Why the store cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error("cannot read the NATS credentials in {}", path.display())]
    Credentials { path: PathBuf, source: std::io::Error },
    #[error("cannot connect to NATS at {servers}")]
    Connect { servers: String, source: Box<async_nats::ConnectError> },
    #[error("cannot open the bucket `{bucket}`: {reason}")]
    Bucket { bucket: String, reason: String },
    #[error("cannot watch the bucket `{bucket}`: {reason}")]
    Watch { bucket: String, reason: String },
}

pub(crate) struct Store {
    client: async_nats::Client,
    context: Context,
    settings: NatsSettings,
    keys: Arc<Keys>,
    /// Set off whenever the connection is there again.
    pub(crate) connected: Arc<Notify>,
}

/// The two buckets.
#[derive(Clone, Debug)]
pub(crate) struct Buckets {
    leases: kv::Store,
    owners: kv::Store,
    keys: Arc<Keys>,
}

/// What both buckets show: first everything that is there, then every change.
pub(crate) struct Watches {
    pub(crate) leases: Watch,
    pub(crate) owners: Watch,
    pub(crate) shown: Shown,
}

/// Of which buckets everything has been shown that was there when the watches were opened.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shown {
    pub(crate) leases: bool,
    pub(crate) owners: bool,
}

impl Shown {
    pub(crate) fn is_all(self) -> bool {
        self.leases && self.owners
    }
}

/// What this node writes.
#[derive(Clone, Debug)]
pub(crate) struct Own {
    pub(crate) member: Member,
    pub(crate) node: NodeRecord,
    /// The record of the id that is claimed.
    pub(crate) owner: Option<OwnerRecord>,
}

impl Store {
    /// Returns at once; the connection is made, and made again, in the background.
    pub(crate) async fn connect(
        settings: NatsSettings,
        node: &str,
        keys: Arc<Keys>,
        problem: Problem,
    ) -> Result<Self, StoreError> {
        let connected = Arc::new(Notify::new());
        let options = options(&settings, node, connected.clone(), problem).await?;
        let client = options.connect(settings.servers.clone()).await.map_err(|source| {
            StoreError::Connect { servers: settings.servers.join(", "), source: Box::new(source) }
        })?;
        let mut context = match &settings.domain {
            Some(domain) => async_nats::jetstream::with_domain(client.clone(), domain),
            None => async_nats::jetstream::new(client.clone()),
        };
        context.set_timeout(DEADLINE);
        Ok(Self { client, context, settings, keys, connected })
    }

    pub(crate) fn client(&self) -> async_nats::Client {
        self.client.clone()
    }

    pub(crate) fn context(&self) -> Context {
        self.context.clone()
    }

    pub(crate) fn is_connected(&self) -> bool {
        self.client.connection_state() == State::Connected
    }

    /// Opens the buckets, or makes them.
    pub(crate) async fn buckets(&self) -> Result<Buckets, StoreError> {
        let leases = self.bucket("leases", LEASES_KEPT).await?;
        let owners = self.bucket("owners", Duration::ZERO).await?;
        Ok(Buckets { leases, owners, keys: self.keys.clone() })
    }

    async fn bucket(&self, name: &str, max_age: Duration) -> Result<kv::Store, StoreError> {
        self.opener().open(name, max_age).await
    }

    /// Opens more buckets.
    pub(crate) fn opener(&self) -> Opener {
        let NatsSettings { prefix, replicas, .. } = self.settings.clone();
        Opener { context: self.context.clone(), prefix, replicas }
    }
}

/// Opens buckets of this cluster, or makes them.
#[derive(Clone, Debug)]
pub(crate) struct Opener {
    context: Context,
    prefix: String,
    replicas: usize,
}

impl Opener {
    /// A bucket that exists keeps its settings, such as its age limit and replicas.
    pub(crate) async fn open(&self, name: &str, max_age: Duration) -> Result<kv::Store, StoreError> {
        let bucket = format!("{}_{name}", self.prefix);
        let failed = |reason: String| StoreError::Bucket { bucket: bucket.clone(), reason };
        if let Ok(Ok(store)) = timeout(DEADLINE, self.context.get_key_value(&bucket)).await {
            return Ok(store);
        }
        let config = kv::Config {
            bucket: bucket.clone(),
            description: "Toolyard cluster".to_owned(),
            history: 1,
            max_age,
            num_replicas: self.replicas,
            ..kv::Config::default()
        };
        let created = timeout(DEADLINE, self.context.create_key_value(config)).await;
        created.map_err(|_| failed("NATS did not answer".into()))?.map_err(|error| failed(error.to_string()))
    }
}

/// Shows everything that is in a bucket, then every change.
pub(crate) async fn watch(store: &kv::Store) -> Result<Watch, StoreError> {
    let failed = |reason: String| StoreError::Watch { bucket: store.name.clone(), reason };
    let watch = timeout(DEADLINE, store.watch_with_history(">")).await;
    watch.map_err(|_| failed("NATS did not answer".into()))?.map_err(|error| failed(error.to_string()))
}

async fn is_empty(store: &kv::Store) -> Result<bool, StoreError> {
    let failed = |reason: String| StoreError::Watch { bucket: store.name.clone(), reason };
    let info = timeout(DEADLINE, store.stream.get_info()).await;
    let info = info.map_err(|_| failed("NATS did not answer".into()))?;
    Ok(info.map_err(|error| failed(error.to_string()))?.state.messages == 0)
}

/// Writes a key in place of the version that is known, or of none, in bounded time.
pub(crate) async fn replace(store: &kv::Store, key: &str, value: Bytes, known: Option<u64>) -> Outcome {
    let written = async {
        match known {
            Some(revision) => update(store, key, value, revision).await,
            None => create(store, key, value).await,
        }
    };
    timeout(DEADLINE, written).await.unwrap_or(Outcome::Unknown)
}

/// What a key holds now, with its version, in bounded time. Nothing if it has no value, or if that cannot be found out.
pub(crate) async fn look_up(store: &kv::Store, key: &str) -> Option<kv::Entry> {
    entry(store, key).await.ok()?
}

/// What a key holds now, with its version, in bounded time. Nothing if it has no value.
pub(crate) async fn entry(store: &kv::Store, key: &str) -> Result<Option<kv::Entry>, String> {
    let entry = timeout(DEADLINE, store.entry(key)).await;
    let entry = entry.map_err(|_| "NATS did not answer".to_owned())?.map_err(|error| error.to_string())?;
    Ok(entry.filter(|entry| entry.operation == Operation::Put))
}

/// A value as the leader has it.
pub(crate) struct Latest {
    pub(crate) revision: u64,
    pub(crate) value: Bytes,
}

/// What a key holds now, in bounded time. Nothing if it has no value. It is read from the leader, since a replica may not
/// have the last change yet.
pub(crate) async fn latest(store: &kv::Store, key: &str) -> Result<Option<Latest>, String> {
    let subject = format!("{}{key}", store.prefix);
    let read = timeout(DEADLINE, store.stream.get_last_raw_message_by_subject(&subject)).await;
    let message = match read.map_err(|_| "NATS did not answer".to_owned())? {
        Ok(message) => message,
        Err(error) if error.kind() == LastRawMessageErrorKind::NoMessageFound => return Ok(None),
        Err(error) => return Err(error.to_string()),
    };
    // Only a mark of a removal has it.
    let is_removed = message.headers.get("KV-Operation").is_some();
    Ok((!is_removed).then_some(Latest { revision: message.sequence, value: message.payload }))
}

async fn options(
    settings: &NatsSettings,
    node: &str,
    connected: Arc<Notify>,
    problem: Problem,
) -> Result<ConnectOptions, StoreError> {
    let mut options = ConnectOptions::new()
        .name(format!("toolyard {node}"))
        .retry_on_initial_connect()
        .ping_interval(PING)
        .connection_timeout(DEADLINE)
        .reconnect_delay_callback(|tries| {
            let tries = u32::try_from(tries).unwrap_or(u32::MAX);
            Duration::from_millis(50).saturating_mul(tries).min(LONGEST_PAUSE)
        })
        .event_callback(move |event| {
            tracing::debug!(target: "cluster", %event, "NATS");
            match event {
                Event::Connected => {
                    problem.set(None);
                    connected.notify_one();
                }
                Event::ClientError(error) => problem.set(Some(error.to_string())),
                Event::ServerError(error) => problem.set(Some(error.to_string())),
                Event::Disconnected => problem.set(Some("the connection was lost".to_owned())),
                _ => {}
            }
            async {}
        });
    match &settings.credentials {
        Credentials::None => {}
        Credentials::NKey(seed) => options = options.nkey(seed.trim().to_owned()),
        Credentials::File(path) => {
            let failed = |source| StoreError::Credentials { path: path.clone(), source };
            options = options.credentials_file(path).await.map_err(failed)?;
        }
    }
    if settings.require_tls {
        options = options.require_tls(true);
    }
    if let Some(ca) = &settings.ca {
        options = options.add_root_certificates(ca.clone());
    }
    if let Some((certificate, key)) = &settings.certificate {
        options = options.add_client_certificate(certificate.clone(), key.clone());
    }
    Ok(options)
}

impl Buckets {
    pub(crate) async fn watch(&self) -> Result<Watches, StoreError> {
        let (leases, owners) = (watch(&self.leases).await?, watch(&self.owners).await?);
        // A watch reports with the last entry that it has shown everything, so for an empty bucket it does not.
        // What is written after this is a later entry.
        let shown = Shown { leases: is_empty(&self.leases).await?, owners: is_empty(&self.owners).await? };
        Ok(Watches { leases, owners, shown })
    }

    /// Carries an operation out, in bounded time.
    pub(crate) async fn carry_out(&self, op: Op, own: Own) -> Outcome {
        timeout(DEADLINE, self.try_to(&op, &own)).await.unwrap_or(Outcome::Unknown)
    }

    async fn try_to(&self, op: &Op, own: &Own) -> Outcome {
        let key = own.member.key();
        let lease = || Bytes::from(record::seal(&self.keys, &key, &own.node));
        match op {
            Op::CreateLease => create(&self.leases, &key, lease()).await,
            Op::RenewLease(revision) => update(&self.leases, &key, lease(), *revision).await,
            Op::ReadLease => self.read_lease(&key).await,
            Op::Fence(member, at) => {
                let fenced = Bytes::from_static(FENCED);
                match at {
                    Some(revision) => update(&self.leases, &member.key(), fenced, *revision).await,
                    None => create(&self.leases, &member.key(), fenced).await,
                }
            }
            Op::Claim(id, at) => {
                let Some(owner) = &own.owner else { return Outcome::Conflict };
                let owner = Bytes::from(record::seal(&self.keys, id, owner));
                match at {
                    Some(revision) => update(&self.owners, id, owner, *revision).await,
                    None => create(&self.owners, id, owner).await,
                }
            }
            Op::Release(id, revision) => delete(&self.owners, id, *revision).await,
            Op::EndLease(revision) => delete(&self.leases, &key, *revision).await,
        }
    }

    async fn read_lease(&self, key: &str) -> Outcome {
        match self.leases.entry(key).await {
            Ok(entry) => {
                let entry = entry.filter(|entry| entry.operation == Operation::Put);
                Outcome::Lease(entry.map(|entry| (entry.revision, *entry.value == *FENCED)))
            }
            Err(_) => Outcome::Unknown,
        }
    }
}

async fn create(store: &kv::Store, key: &str, value: Bytes) -> Outcome {
    match store.create(key, value).await {
        Ok(revision) => Outcome::Done(revision),
        Err(error) if error.kind() == CreateErrorKind::AlreadyExists => Outcome::Conflict,
        Err(_) => Outcome::Unknown,
    }
}

async fn update(store: &kv::Store, key: &str, value: Bytes, revision: u64) -> Outcome {
    match store.update(key, value, revision).await {
        Ok(revision) => Outcome::Done(revision),
        Err(error) if error.kind() == UpdateErrorKind::WrongLastRevision => Outcome::Conflict,
        Err(_) => Outcome::Unknown,
    }
}

pub(crate) async fn delete(store: &kv::Store, key: &str, revision: u64) -> Outcome {
    match store.delete_expect_revision(key, Some(revision)).await {
        Ok(()) => Outcome::Done(revision),
        Err(error) if error.kind() == UpdateErrorKind::WrongLastRevision => Outcome::Conflict,
        Err(_) => Outcome::Unknown,
    }
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Store").field("settings", &self.settings).finish_non_exhaustive()
    }
}
