//! The registered apps. An id belongs to one app at a time. A second registration with the same id is accepted if it is
//! the same app, which then takes over its seat; otherwise it is refused with a hint how to choose another id.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use data_encoding::HEXLOWER;
use parking_lot::MutexGuard;
use toolyard_model::Connected;
use toolyard_proto::app::Register;
use toolyard_proto::name::UpstreamId;

use super::Apps;
use super::channel::AppChannel;
use super::link::LinkedApp;
use super::process::Process;
use super::reach::{Dial, Reach, Source};
use crate::dynamic_upstreams::{Seat, Taken};
use crate::plan::{Connect, UpstreamKind, UpstreamPlan};
use crate::upstream::Upstream;
use crate::upstream::state::Phase;

/// How long to wait for the old connection to end, because an app that restarts may reconnect before its end is
/// noticed.
const OLD_ENDS_WITHIN: Duration = Duration::from_millis(500);

/// One app.
pub(super) struct RegisteredApp {
    upstream: Arc<Upstream>,
    reach: Arc<Reach>,
    session: Arc<str>,
    /// The client id that it proved.
    client: Option<Arc<str>>,
    process: Option<Process>,
    endpoint: Arc<str>,
}

/// An app that wants to register.
pub(super) struct Applicant {
    pub(super) id: UpstreamId,
    pub(super) session: Option<String>,
    pub(super) client: Option<Arc<str>>,
    pub(super) process: Option<Process>,
    pub(super) endpoint: Arc<str>,
}

/// Why a registration is refused, and what to do.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Refused {
    pub(super) reason: String,
    pub(super) guidance: String,
}

impl Refused {
    pub(super) fn new(reason: impl Into<String>, guidance: impl Into<String>) -> Self {
        Self { reason: reason.into(), guidance: guidance.into() }
    }
}

/// A link that waits to be seated.
pub(super) struct Arrival {
    pub(super) connected: Connected,
    pub(super) linked: Arc<LinkedApp>,
}

/// The state of an app in the terms of its protocol, derived from its upstream's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AppStatus {
    Connected,
    Disconnected,
    Reconnecting,
    Unregistered,
}

impl AppStatus {
    pub fn of(phase: Phase, has_left: bool) -> Self {
        match phase {
            Phase::Active => Self::Connected,
            Phase::Discovered | Phase::Connecting | Phase::Retrying if !has_left => Self::Reconnecting,
            Phase::Dead if !has_left => Self::Disconnected,
            _ => Self::Unregistered,
        }
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Connected => "Connected",
            Self::Disconnected => "Disconnected",
            Self::Reconnecting => "Reconnecting",
            Self::Unregistered => "Unregistered",
        }
    }
}

/// The facts known about one app.
#[derive(Clone, Debug)]
pub struct AppRecord {
    pub id: UpstreamId,
    pub endpoint: Arc<str>,
    pub status: AppStatus,
    pub connected_at: Option<SystemTime>,
    pub last_activity: Option<SystemTime>,
    /// Calls under way, and calls that wait for their turn.
    pub calls: usize,
    pub waiting: usize,
    /// Answers that came too late or for no call, and lines that were not understood.
    pub strays: u64,
    pub garbage: u64,
    pub pid: Option<u32>,
}

enum Seating {
    Seated(Arc<Seat>),
    /// The id is in use on this connection.
    InUse(Arc<AppChannel>, Arrival),
}

impl Apps {
    fn entries(&self) -> MutexGuard<'_, std::collections::HashMap<String, RegisteredApp>> {
        self.shared.entries.lock()
    }

    /// Accepts an app. `welcome` receives its session id just before calls to the app are possible.
    pub(super) async fn seat(
        &self,
        applicant: &Applicant,
        arrival: Arrival,
        welcome: impl Fn(&str),
    ) -> Result<Arc<Seat>, Refused> {
        let arrival = match self.try_seat(applicant, arrival, &welcome)? {
            Seating::Seated(seat) => return Ok(seat),
            Seating::InUse(old, arrival) => {
                let _ = tokio::time::timeout(OLD_ENDS_WITHIN, old.closing.cancelled()).await;
                arrival
            }
        };
        match self.try_seat(applicant, arrival, &welcome)? {
            Seating::Seated(seat) => Ok(seat),
            Seating::InUse(..) => Err(in_use(&applicant.id)),
        }
    }

    fn try_seat(
        &self,
        applicant: &Applicant,
        arrival: Arrival,
        welcome: &impl Fn(&str),
    ) -> Result<Seating, Refused> {
        let mut entries = self.entries();
        entries.retain(|_, entry| !entry.upstream.life.is_retired());
        let Some(entry) = entries.get_mut(&applicant.id.fold()) else {
            let entry = self.first(applicant, arrival, welcome)?;
            let seat = entry.reach.seat().clone();
            entries.insert(applicant.id.fold(), entry);
            return Ok(Seating::Seated(seat));
        };
        if entry.reach.speaks_mcp() && entry.upstream.links.live().is_some() {
            return Err(in_use(&applicant.id));
        }
        if let Some(old) = entry.reach.linked() {
            if !old.channel.is_over() && !entry.is_same(applicant) {
                return Ok(Seating::InUse(old.channel.clone(), arrival));
            }
            old.channel.end("the app has connected again");
        }
        welcome(&entry.session);
        entry.come_back(applicant, arrival);
        Ok(Seating::Seated(entry.reach.seat().clone()))
    }

    fn first(
        &self,
        applicant: &Applicant,
        arrival: Arrival,
        welcome: &impl Fn(&str),
    ) -> Result<RegisteredApp, Refused> {
        let reach = Arc::new(Reach::new(self, applicant.id.clone(), None));
        let session: Arc<str> = new_session().into();
        welcome(&session);
        reach.arrive(arrival.connected, arrival.linked);
        let upstream = self.join(reach.clone(), &applicant.id).map_err(|taken| not_free(&taken))?;
        let Applicant { client, process, endpoint, .. } = applicant;
        let client = client.clone();
        let process = *process;
        let endpoint = endpoint.clone();
        Ok(RegisteredApp { upstream, reach, session, client, process, endpoint })
    }

    fn join(&self, connect: Arc<Reach>, id: &UpstreamId) -> Result<Arc<Upstream>, Taken> {
        let mut plan = UpstreamPlan::new(id.clone(), UpstreamKind::App, connect);
        plan.policy.timeouts = self.shared.options.timeouts;
        self.shared.gateway.join(plan)
    }

    /// Connects to an app that listens, and keeps reconnecting until [`Apps::expect_no_more`]. An app that registers
    /// itself under the same id is the same app. If another kind of upstream has the id, it keeps the id.
    pub fn expect(&self, id: &UpstreamId, dial: Dial) -> Result<Arc<Upstream>, Taken> {
        let mut entries = self.entries();
        entries.retain(|_, entry| !entry.upstream.life.is_retired());
        if let Some(entry) = entries.get_mut(&id.fold()) {
            let is_beaten = |old: Dial| {
                old.source < dial.source || (old.source == dial.source && old.endpoint != dial.endpoint)
            };
            if entry.reach.dial().is_some_and(is_beaten) {
                return Err(Taken(entry.upstream.clone()));
            }
            entry.reach.set_dial(Some(dial));
            entry.upstream.wake();
            return Ok(entry.upstream.clone());
        }
        let endpoint = dial.endpoint.to_string().into();
        let reach = Arc::new(Reach::new(self, id.clone(), Some(dial)));
        let upstream = self.join(reach.clone(), id)?;
        let session = new_session().into();
        let client = None;
        let process = None;
        entries.insert(
            id.fold(),
            RegisteredApp { upstream: upstream.clone(), reach, session, client, process, endpoint },
        );
        Ok(upstream)
    }

    /// A hint was removed: the gateway no longer connects to the app, unless the config names it. An open connection is
    /// kept.
    pub fn expect_no_more(&self, upstream: &Arc<Upstream>) {
        if let Some(entry) = self.entries().get_mut(&upstream.id().fold())
            && Arc::ptr_eq(&entry.upstream, upstream)
            && entry.reach.dial().is_some_and(|dial| dial.source == Source::Hint)
        {
            entry.reach.set_dial(None);
            entry.upstream.wake();
        }
    }

    /// Removes its upstream, too.
    pub fn forget(&self, upstream: &Arc<Upstream>) {
        let mut entries = self.entries();
        entries.retain(|_, entry| !Arc::ptr_eq(&entry.upstream, upstream));
        self.shared.gateway.remove(upstream);
    }

    /// Connects to a program that listens and may register, but is not listed as an app.
    pub fn way_to(&self, id: &UpstreamId, dial: Dial) -> Arc<dyn Connect> {
        Arc::new(Reach::new(self, id.clone(), Some(dial)))
    }

    /// Every app that is known, in no order.
    pub fn records(&self) -> Vec<AppRecord> {
        self.entries()
            .values()
            .filter(|entry| !entry.upstream.life.is_retired())
            .map(RegisteredApp::record)
            .collect()
    }

    /// The session id of the app in this seat; a random one if the seat does not belong to a registered app.
    pub(super) fn session_of(&self, id: &UpstreamId, seat: &Arc<Seat>) -> Arc<str> {
        let entries = self.entries();
        let entry = entries.get(&id.fold()).filter(|entry| Arc::ptr_eq(entry.reach.seat(), seat));
        entry.map_or_else(|| new_session().into(), |entry| entry.session.clone())
    }

    /// The process behind a connection became known.
    pub(super) fn found_process(&self, id: &UpstreamId, linked: &Arc<LinkedApp>, process: Process) {
        if let Some(entry) = self.entries().get_mut(&id.fold())
            && entry.reach.linked().is_some_and(|own| Arc::ptr_eq(&own, linked))
        {
            entry.process.get_or_insert(process);
        }
    }
}

impl RegisteredApp {
    /// Whether the applicant is the same app: it presents the session id, or it proves the same client id, or the
    /// process that had the id has ended. If the gateway connected to the app, only the session id counts.
    fn is_same(&self, applicant: &Applicant) -> bool {
        let knows_session = applicant.session.as_deref() == Some(&*self.session);
        let is_proven = applicant.client.is_some() && applicant.client == self.client;
        let came_by_itself = !self.reach.is_dialled();
        knows_session || came_by_itself && (is_proven || self.process.is_some_and(Process::is_gone))
    }

    fn come_back(&mut self, applicant: &Applicant, arrival: Arrival) {
        self.client.clone_from(&applicant.client);
        self.process = applicant.process;
        self.endpoint = applicant.endpoint.clone();
        self.reach.arrive(arrival.connected, arrival.linked);
        self.upstream.wake();
    }

    fn record(&self) -> AppRecord {
        let state = self.upstream.state();
        let linked = self.reach.linked();
        let channel = linked.as_ref().map(|linked| &linked.channel);
        AppRecord {
            id: self.upstream.id().clone(),
            endpoint: self.endpoint.clone(),
            status: AppStatus::of(state.phase, self.reach.seat().has_left()),
            connected_at: state.connected,
            last_activity: self.upstream.last_activity(),
            calls: channel.map_or(0, |channel| channel.pending()),
            waiting: linked.as_ref().map_or(0, |linked| linked.queue.waiting()),
            strays: channel.map_or(0, |channel| channel.strays()),
            garbage: channel.map_or(0, |channel| channel.garbage()),
            pid: self.process.map(|process| process.pid),
        }
    }
}

pub(super) fn new_session() -> String {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).expect("the system gives random numbers");
    HEXLOWER.encode(&bytes)
}

fn in_use(id: &UpstreamId) -> Refused {
    Refused::new(
        format!("an app named `{id}` is connected already"),
        format!(
            "choose another name, such as `{id}-Development` or `{id}-v2`; if this is the same app coming back, \
             send the `sessionId` of its `registered` message"
        ),
    )
}

fn not_free(taken: &Taken) -> Refused {
    let id = taken.0.id();
    Refused::new(taken.to_string(), format!("choose another name, such as `{id}-app` or `{id}-Development`"))
}

/// The id that a registration asks for.
pub(super) fn read_id(register: &Register) -> Result<UpstreamId, Refused> {
    UpstreamId::parse(&register.app).map_err(|error| {
        Refused::new(
            error.to_string(),
            "choose an `appName` of a letter, then letters, digits, `_` and `-`, such as `MyApp-Development`",
        )
    })
}
