//! One app's connection from its first line to its last: the app registers, and then its answers are matched to calls.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadHalf, WriteHalf};
use tokio::time::timeout;
use toolyard_model::Connected;
use toolyard_proto::app::{self, AppMessage, Offered, RefusedTool, Register, Registered, check_tools};
use toolyard_proto::codec::line::{LineDecoder, one_line};
use toolyard_proto::name::UpstreamId;

use super::channel::{self, AppChannel, Outgoing};
use super::link::{AppDetails, AppLink, LinkedApp};
use super::process::Process;
use super::queue::Queue;
use super::reach::Dialled;
use super::refusals::FirstLine;
use super::register::{Applicant, Arrival, Refused, read_id};
use super::{Apps, schema};
use crate::dynamic_upstreams::Seat;

/// The minimum size of one read.
const CHUNK: usize = 16 * 1024;
/// How long a refused app has to read the reason.
const REASON_TIMEOUT: Duration = Duration::from_secs(1);
/// How much of an unreadable line is logged.
const EXCERPT: usize = 200;
const REGISTER_FIRST: &str = "send {\"type\":\"register\",\"appName\":…,\"tools\":[…]} as the first line";
/// How many characters of an app's text are quoted in an answer.
const MOST_OF_A_TYPE: usize = 40;

/// The other end of a connection.
pub(super) struct AppPeer {
    pub(super) endpoint: Arc<str>,
    pub(super) process: Option<Process>,
    /// How to find the process, if the connection does not reveal it.
    pub(super) find: Option<Box<dyn FnOnce() -> Option<Process> + Send>>,
}

/// Runs an app's connection until it ends.
pub(super) async fn converse<S>(apps: Apps, stream: S, caller: AppPeer)
where
    S: AsyncRead + AsyncWrite + Send + 'static,
{
    let (read, mut write) = tokio::io::split(stream);
    let mut lines = Lines::new(read, &apps);
    let patience = apps.shared.options.patience;
    let first = timeout(patience, lines.first(Some(&mut write))).await.unwrap_or_else(|_| {
        Err(Some(Refused::new(format!("no `register` came within {} s", patience.as_secs()), REGISTER_FIRST)))
    });
    match first {
        Ok(FirstMessage::Register(register)) => Visit { apps, lines, caller }.begin(register, write).await,
        Ok(FirstMessage::Challenge(_)) => {
            let guidance = "only an app to which the gateway connects may send it; send `register` first";
            lines
                .refuse(
                    write,
                    &Refused::new("an app that connects by itself must not send `challenge`", guidance),
                )
                .await;
        }
        Err(Some(refused)) => lines.refuse(write, &refused).await,
        Err(None) => {}
    }
}

/// Waits for the registration of an app to which we connected. Returns nothing if it does not register within
/// `patience`, because it may speak another protocol. Its link lives in the scope of the apps.
pub(super) async fn await_registration<S>(
    apps: &Apps,
    stream: S,
    (id, dialled): (UpstreamId, &Dialled),
    patience: Duration,
) -> Result<Option<Arrival>, String>
where
    S: AsyncRead + AsyncWrite + Send + 'static,
{
    let (read, mut write) = tokio::io::split(stream);
    let mut lines = Lines::new(read, apps);
    let register = match timeout(patience, lines.register(&mut write, apps)).await {
        Ok(Ok(register)) => register,
        Ok(Err(NotRegistered::Closed)) => return Err("it closed the connection without a message".into()),
        Ok(Err(NotRegistered::NoSecret)) => {
            return Err("it requires proof of a shared secret; set `secret` in [auth]".into());
        }
        Ok(Err(NotRegistered::Other)) | Err(_) => return Ok(None),
    };
    let Ok(room) = apps.shared.seats.clone().try_acquire_owned() else {
        let refused = no_room(apps.shared.options.connections);
        lines.refuse(write, &refused).await;
        return Err(refused.reason);
    };
    let caller = AppPeer { endpoint: dialled.endpoint.clone(), process: None, find: None };
    let visit = Visit { apps: apps.clone(), lines, caller };
    if let Err(refused) = visit.prove(&register, Some(&id)) {
        visit.lines.refuse(write, &refused).await;
        return Err(refused.reason);
    }
    let (linked, connected, greeted) = visit.link(&id, &register, dialled.description.as_deref());
    linked.channel.say(registered(&id, &dialled.session, &greeted));
    let (ticket, seat) = (dialled.session.clone(), dialled.seat.clone());
    let session = AppSession { id, ticket, linked: linked.clone(), seat };
    let conversation = visit.open(session, (write, greeted.outgoing));
    apps.shared.scope.spawn(async move {
        conversation.run().await;
        drop(room);
    });
    Ok(Some(Arrival { connected, linked }))
}

/// The refusal if there is no room.
pub(super) fn no_room(most: usize) -> Refused {
    let reason = format!("{most} apps are connected, which is the limit");
    Refused::new(reason, "try again later, or raise `max_connections` in [apps]")
}

/// The notice about a message before the registration.
fn unexpected(message: &AppMessage) -> Vec<u8> {
    let received = match message {
        AppMessage::Unknown(kind) if kind.is_empty() => "a message without `type`".to_owned(),
        AppMessage::Unknown(kind) => format!("`{}`", excerpt(kind)),
        _ => "another message".to_owned(),
    };
    let line = app::ignored(&format!("expected `register` first, received {received}"), REGISTER_FIRST);
    [&line, &b"\n"[..]].concat()
}

/// The beginning of a text of the app, safe to show.
fn excerpt(text: &str) -> String {
    text.chars().take(MOST_OF_A_TYPE).collect::<String>().escape_debug().to_string()
}

/// The first message of an app.
enum FirstMessage {
    Register(Register),
    Challenge(String),
}

/// Why an app to which we connected is not registered.
enum NotRegistered {
    Closed,
    /// It requires a proof that we cannot give.
    NoSecret,
    /// It may speak another protocol.
    Other,
}

impl From<Option<Refused>> for NotRegistered {
    fn from(refused: Option<Refused>) -> Self {
        if refused.is_some() { Self::Other } else { Self::Closed }
    }
}

struct Lines<S> {
    read: ReadHalf<S>,
    decoder: LineDecoder,
    apps: Apps,
    /// Until the app has registered.
    first_line: Option<FirstLine>,
}

/// The reason if there was no room to read the first line. Only this reason is sent to the app.
const NO_ROOM_FOR_LINE: &str = "too many large first messages are being read";

impl<S: AsyncRead + AsyncWrite> Lines<S> {
    fn new(read: ReadHalf<S>, apps: &Apps) -> Self {
        let decoder = LineDecoder::new(apps.shared.options.line_limit);
        Self { read, decoder, apps: apps.clone(), first_line: Some(apps.shared.first_lines.begin()) }
    }

    /// The next whole line, or why there is none.
    async fn next(&mut self) -> Result<Bytes, String> {
        loop {
            if let Some(line) = self.decoder.next_line().map_err(|error| error.to_string())? {
                return Ok(line);
            }
            self.decoder.buffer().reserve(CHUNK);
            match self.read.read_buf(self.decoder.buffer()).await {
                Ok(0) => return Err("it closed the connection".into()),
                Ok(_) => {}
                Err(error) => return Err(format!("reading from it failed: {error}")),
            }
            let length = self.decoder.buffer().len();
            if self.first_line.as_mut().is_some_and(|first| !first.may_grow_to(length)) {
                return Err(NO_ROOM_FOR_LINE.into());
            }
        }
    }

    /// Reads until the first `register` or `challenge`. Other messages of the app protocol are ignored; the first of
    /// them is answered with a notice to `notify`. `Err(None)` if the connection was closed.
    async fn first(
        &mut self,
        mut notify: Option<&mut WriteHalf<S>>,
    ) -> Result<FirstMessage, Option<Refused>> {
        loop {
            let line = match self.next().await {
                Ok(line) => line,
                Err(reason) if reason == NO_ROOM_FOR_LINE => {
                    return Err(Some(Refused::new(reason, "try again later")));
                }
                Err(_) => return Err(None),
            };
            let (reason, guidance) = match AppMessage::parse(&line) {
                Ok(AppMessage::Register(register)) => {
                    self.first_line = None;
                    return Ok(FirstMessage::Register(register));
                }
                Ok(AppMessage::Challenge(nonce)) => return Ok(FirstMessage::Challenge(nonce)),
                Ok(other) if !matches!(other, AppMessage::JsonRpc(_)) => {
                    if let Some(write) = notify.take() {
                        let _ = write.write_all(&unexpected(&other)).await;
                    }
                    continue;
                }
                Ok(AppMessage::JsonRpc(method)) => (
                    format!(
                        "`{}` is a message of an MCP client, and this address is for apps",
                        excerpt(&method)
                    ),
                    "connect clients to the `http` or `tcp` address of the gateway; `toolyard doctor` shows them",
                ),
                Ok(_) => continue,
                Err(misread) => (
                    misread.to_string(),
                    "send one JSON message per line; docs/guide/app-protocol.md shows them",
                ),
            };
            return Err(Some(Refused::new(reason, guidance)));
        }
    }

    /// Reads the registration of an app to which we connected. If the app requires proof first, we send it.
    async fn register(&mut self, write: &mut WriteHalf<S>, apps: &Apps) -> Result<Register, NotRegistered> {
        let nonce = match self.first(None).await? {
            FirstMessage::Register(register) => return Ok(register),
            FirstMessage::Challenge(nonce) => nonce,
        };
        let signed = apps.shared.options.signed.as_ref().ok_or(NotRegistered::NoSecret)?;
        let line = app::proof(&signed.prove(&nonce));
        write.write_all(&[&line, &b"\n"[..]].concat()).await.map_err(|_| NotRegistered::Closed)?;
        match self.first(None).await? {
            FirstMessage::Register(register) => Ok(register),
            FirstMessage::Challenge(_) => Err(NotRegistered::Other),
        }
    }

    /// Sends the reason, and waits a moment so that the app can read it before the connection is gone.
    async fn refuse(mut self, mut write: WriteHalf<S>, refused: &Refused) {
        if let Some(suppressed) = self.apps.shared.refusal_log.next() {
            tracing::warn!(target: "apps", reason = %refused.reason, suppressed, "an app was refused");
        }
        let say = async {
            let line = app::refused(&refused.reason, &refused.guidance);
            write.write_all(&[&line, &b"\n"[..]].concat()).await?;
            write.shutdown().await?;
            let mut rest = [0; 1024];
            while self.read.read(&mut rest).await? > 0 {}
            std::io::Result::Ok(())
        };
        if let Ok(Err(error)) = timeout(REASON_TIMEOUT, say).await {
            tracing::debug!(%error, "a refused app left early");
        }
    }
}

/// A connection whose app is not registered yet.
struct Visit<S> {
    apps: Apps,
    lines: Lines<S>,
    caller: AppPeer,
}

impl<S: AsyncRead + AsyncWrite + Send + 'static> Visit<S> {
    async fn begin(mut self, register: Register, write: WriteHalf<S>) {
        let applicant = match self.applicant(&register) {
            Ok(applicant) => applicant,
            Err(refused) => return self.lines.refuse(write, &refused).await,
        };
        let id = applicant.id.clone();
        let (linked, connected, greeted) = self.link(&id, &register, None);
        let arrival = Arrival { connected, linked: linked.clone() };
        let own_session = OnceLock::new();
        let welcome = |session: &str| {
            linked.channel.say(registered(&id, session, &greeted));
            let _ = own_session.set(session.into());
        };
        let seat = match self.apps.seat(&applicant, arrival, welcome).await {
            Ok(seat) => seat,
            Err(refused) => return self.lines.refuse(write, &refused).await,
        };
        self.look_for_process(&id, &linked);
        let ticket = own_session.into_inner().unwrap_or_default();
        self.open(AppSession { id, ticket, linked, seat }, (write, greeted.outgoing)).run().await;
    }

    /// Makes a link from a registration.
    fn link(
        &self,
        id: &UpstreamId,
        register: &Register,
        description: Option<&str>,
    ) -> (Arc<LinkedApp>, Connected, Greeted) {
        let (offered, refusals) = check_tools((id, &register.app), &register.tools, schema::check);
        let options = &self.apps.shared.options;
        let queue = Queue::new(options.calls, options.queue);
        let (channel, outgoing) = AppChannel::new(id.as_str().into(), self.apps.shared.last_id.clone());
        let details =
            AppDetails { own_name: register.app.as_str().into(), version: register.version, description };
        let (link, events) = AppLink::new(channel, &offered, queue, details);
        let linked = link.shared();
        (linked, Connected { link: Arc::new(link), events }, Greeted { offered, refusals, outgoing })
    }

    /// Starts the conversation of a registered app.
    fn open(self, session: AppSession, (write, outgoing): (WriteHalf<S>, Outgoing)) -> AppConnection<S> {
        let (AppSession { id, linked, .. }, endpoint) = (&session, &self.caller.endpoint);
        tracing::info!(target: "apps", app = %id, tools = linked.tools(), %endpoint, "registered");
        self.apps.shared.scope.spawn(channel::write(linked.channel.clone(), write, outgoing));
        let ended = ConversationEnd(linked.clone());
        AppConnection { session, lines: self.lines, _ended: ended }
    }

    fn applicant(&self, register: &Register) -> Result<Applicant, Refused> {
        let id = read_id(register)?;
        let client = self.prove(register, None)?;
        let process = register.pid.and_then(Process::find).or(self.caller.process);
        let endpoint = self.caller.endpoint.clone();
        Ok(Applicant { id, session: register.session.clone(), client, process, endpoint })
    }

    /// The client id that the app proves, if the config has a secret. It must be the app's name, or the name under
    /// which the config lists it (`listed`), so that one app's token does not register another.
    fn prove(&self, register: &Register, listed: Option<&UpstreamId>) -> Result<Option<Arc<str>>, Refused> {
        let options = &self.apps.shared.options;
        let Some(signed) = &options.signed else { return Ok(None) };
        let is_own = |client: &str| {
            let names = [Some(register.app.as_str()), listed.map(UpstreamId::as_str)];
            names.into_iter().flatten().any(|name| name.eq_ignore_ascii_case(client))
        };
        match signed.check(register.auth_token.as_deref()) {
            Ok(client) if options.any_client_id || is_own(&client) => Ok(Some(client)),
            Ok(client) => {
                if let Some(suppressed) = self.apps.shared.auth_log.next() {
                    tracing::warn!(target: "auth", app = ?register.app, ?client, endpoint = %self.caller.endpoint, suppressed, "rejected an app with the token of another client");
                }
                let guidance = format!(
                    "make the token with the client id `{}`, or set `any_client_id = true` in [apps]",
                    register.app.escape_debug()
                );
                Err(Refused::new(format!("the token is for the client id `{client}`"), guidance))
            }
            Err(bad) => {
                if let Some(suppressed) = self.apps.shared.auth_log.next() {
                    tracing::warn!(target: "auth", app = ?register.app, endpoint = %self.caller.endpoint, reason = %bad, suppressed, "rejected an app");
                }
                let guidance = "send `authToken`: ClientId:UnixTimestamp:Base64(HMAC-SHA256(secret, \"ClientId:UnixTimestamp\")); `toolyard token` makes one";
                Err(Refused::new(bad.to_string(), guidance))
            }
        }
    }

    /// This reads every process of the system, so it runs in the background.
    fn look_for_process(&mut self, id: &UpstreamId, linked: &Arc<LinkedApp>) {
        let Some(find) = self.caller.find.take() else { return };
        let apps = self.apps.clone();
        let id = id.clone();
        let linked = linked.clone();
        self.apps.shared.scope.spawn(async move {
            if let Ok(Some(process)) = tokio::task::spawn_blocking(find).await {
                apps.found_process(&id, &linked, process);
            }
        });
    }
}

/// The outcome of a registration.
struct Greeted {
    offered: Vec<Offered>,
    refusals: Vec<RefusedTool>,
    outgoing: Outgoing,
}

fn registered(id: &UpstreamId, session: &str, greeted: &Greeted) -> Bytes {
    let tools = greeted.offered.iter().map(|tool| tool.canonical(id)).collect();
    one_line(Registered::new(id.as_str(), session, tools, greeted.refusals.clone()).render())
}

/// A connection whose app is registered.
struct AppConnection<S> {
    session: AppSession,
    lines: Lines<S>,
    _ended: ConversationEnd,
}

impl<S: AsyncRead + AsyncWrite> AppConnection<S> {
    async fn run(mut self) {
        let why = self.session.run(&mut self.lines).await;
        self.session.linked.channel.end(&why);
    }
}

/// Ends the link with the conversation, however that ends.
struct ConversationEnd(Arc<LinkedApp>);

impl Drop for ConversationEnd {
    fn drop(&mut self) {
        self.0.channel.end("the gateway is stopping");
        self.0.closed();
    }
}

/// A registered app.
struct AppSession {
    id: UpstreamId,
    /// Presented by the app when it reconnects.
    ticket: Arc<str>,
    linked: Arc<LinkedApp>,
    seat: Arc<Seat>,
}

impl AppSession {
    /// Runs until the connection ends; returns the reason.
    async fn run<S: AsyncRead + AsyncWrite>(&self, lines: &mut Lines<S>) -> String {
        loop {
            let line = tokio::select! {
                line = lines.next() => line,
                () = self.linked.channel.closing.cancelled() => return self.linked.channel.why(),
            };
            let taken = line.and_then(|line| self.take(&line));
            if let Err(why) = taken {
                return why;
            }
        }
    }

    fn take(&self, line: &Bytes) -> Result<(), String> {
        let channel = &self.linked.channel;
        match AppMessage::parse(line) {
            Ok(AppMessage::Response(response)) => channel.answer(response.id, response.result),
            Ok(AppMessage::Progress(progress)) => channel.progress(progress),
            Ok(AppMessage::Partial(partial)) => channel.partial(&partial),
            Ok(AppMessage::ToolsChanged(tools)) => self.change(&tools),
            Ok(AppMessage::Register(register)) => self.register_again(&register),
            Ok(AppMessage::Heartbeat { is_answer }) => {
                channel.beat.notify_waiters();
                if !is_answer {
                    channel.aside(app::heartbeat_answer());
                }
            }
            Ok(AppMessage::Unregister) => {
                self.seat.goodbye();
                return Err("it has unregistered".into());
            }
            Ok(AppMessage::JsonRpc(_) | AppMessage::Unknown(_) | AppMessage::Challenge(_)) => {
                channel.count_garbage();
            }
            Err(misread) => {
                channel.count_garbage();
                let excerpt = String::from_utf8_lossy(&line[..line.len().min(EXCERPT)]);
                tracing::warn!(target: "apps", app = %self.id, %misread, %excerpt, "received an invalid line");
            }
        }
        Ok(())
    }

    fn change(&self, tools: &[toolyard_proto::Raw]) {
        let names = (&self.id, &*self.linked.own_name);
        let (offered, refusals) = check_tools(names, tools, schema::check);
        self.linked.change(&offered);
        if !refusals.is_empty() {
            let tools = offered.iter().map(|tool| tool.canonical(&self.id)).collect();
            let registered = Registered::new(self.id.as_str(), &self.ticket, tools, refusals);
            self.linked.channel.aside(registered.render());
        }
    }

    /// The same app replaces its list of tools.
    fn register_again(&self, register: &Register) {
        let same = |name: &str| register.app.eq_ignore_ascii_case(name);
        match read_id(register) {
            Ok(_) if same(self.id.as_str()) || same(&self.linked.own_name) => self.change(&register.tools),
            _ => self.linked.channel.aside(app::refused(
                &format!("this connection belongs to `{}`", self.id),
                "open another connection for another app",
            )),
        }
    }
}
