//! The state of a client that outlives its gateway: the calls in flight, and the messages that the next gateway must
//! receive. There is no IO here.

use std::collections::{BTreeMap, HashMap, HashSet};

use bytes::Bytes;
use serde_json::json;
use toolyard_proto::error::Fault;
use toolyard_proto::modern::{Claim, claim, stamp_result};
use toolyard_proto::{CallError, Id, Incoming, Message, Method, Notification, Raw, RequestMessage, Response};

/// Lists that may change without a notification between two gateways, by the capability that announces them.
const CHANGES: [(&str, Method); 3] = [
    ("tools", Method::TOOLS_CHANGED),
    ("prompts", Method::PROMPTS_CHANGED),
    ("resources", Method::RESOURCES_CHANGED),
];

#[derive(Debug, Default)]
pub(crate) struct Memory {
    /// How many gateways have been lost.
    generation: u64,
    calls: HashMap<Id, Call>,
    /// How many calls were answered.
    answers: u64,
    handshake: Option<Handshake>,
    /// The other settings of the session, by subject: each is a request that is sent to the next gateway.
    settings: BTreeMap<String, RequestMessage>,
    /// Requests that were sent again although the client already has their answers.
    repeated: HashSet<Id>,
    /// How many requests were sent again in all.
    repeats: u64,
    /// Whether this is a session of the hub.
    is_hub: bool,
    /// Unanswered requests that connect the session to an instance, or disconnect it (`None`).
    turning: HashMap<Id, Option<RequestMessage>>,
    /// The unanswered request that connects the session to its instance again.
    returning: Option<Id>,
    /// Open questions of the gateway: the id that the client knows, and the gateway's own id.
    asked: HashMap<Id, Id>,
}

/// A request of the client.
#[derive(Debug)]
struct Call {
    /// The name of the request in error messages.
    what: String,
    method: Method,
    /// Whether its answer has the fields of a modern result.
    stamped: bool,
    /// The request itself, if it changes nothing and so can be sent to another gateway.
    read_only: Option<RequestMessage>,
    /// How many gateways were lost while it was in flight.
    losses: u8,
}

/// How often a request is sent again.
const MOST_REPEATS: u8 = 3;

/// Requests that change nothing, so they can be repeated safely.
const READ_ONLY: [&str; 12] = [
    "ping",
    "server/discover",
    "tools/list",
    "prompts/list",
    "prompts/get",
    "resources/list",
    "resources/templates/list",
    "resources/read",
    "completion/complete",
    "tasks/get",
    "tasks/list",
    "tasks/result",
];

#[derive(Debug)]
struct Handshake {
    request: RequestMessage,
    is_answered: bool,
    is_confirmed: bool,
}

/// The connected instance of a hub session, among its settings.
const INSTANCE: &str = "instance";

impl Memory {
    pub(crate) fn of_hub(is_hub: bool) -> Self {
        Self { is_hub, ..Self::default() }
    }

    /// Handles a line from the client; returns the line to pass on.
    pub(crate) fn client_sent(&mut self, line: Bytes) -> Option<Bytes> {
        match Incoming::parse(&line) {
            Ok(Incoming::One(message)) => self.note(message, line),
            Ok(Incoming::Batch(parts)) => {
                for part in parts.into_iter().flatten() {
                    self.note(part, Bytes::new());
                }
                Some(line)
            }
            // The gateway reports the problem of an invalid line.
            Err(_) => Some(line),
        }
    }

    fn note(&mut self, message: Message, line: Bytes) -> Option<Bytes> {
        match message {
            Message::Request(request) => self.note_request(request),
            Message::Notification(notification) => self.note_notification(&notification),
            Message::Response(response) => return self.note_answer(response, line),
        }
        Some(line)
    }

    fn note_request(&mut self, request: RequestMessage) {
        self.calls.insert(request.id.clone(), Call::new(&request));
        let uri = request.params.as_ref().and_then(|params| params.member("uri")?.as_string());
        match (request.method.as_str(), uri) {
            ("initialize", _) => {
                self.handshake = Some(Handshake { request, is_answered: false, is_confirmed: false });
            }
            ("logging/setLevel", _) => drop(self.settings.insert("level".into(), request)),
            ("resources/subscribe", Some(uri)) => drop(self.settings.insert(format!("uri {uri}"), request)),
            ("resources/unsubscribe", Some(uri)) => drop(self.settings.remove(&format!("uri {uri}"))),
            ("tools/call", _) if self.is_hub => self.note_turn(request),
            _ => {}
        }
    }

    fn note_turn(&mut self, request: RequestMessage) {
        let name = request.params.as_ref().and_then(|params| params.member("name")?.as_string());
        match name.as_deref() {
            Some("instances_connect" | "instances/connect") => {
                self.turning.insert(request.id.clone(), Some(request));
            }
            Some("instances_disconnect" | "instances/disconnect") => {
                self.turning.insert(request.id.clone(), None);
            }
            _ => {}
        }
    }

    /// The session is now connected to another instance, so subscriptions at the previous one have ended.
    fn turned(&mut self, to: Option<RequestMessage>) {
        let instance = |request: &RequestMessage| request.params.as_ref()?.at(&["arguments", "instance_id"]);
        let before = self.settings.remove(INSTANCE);
        if before.as_ref().and_then(instance) != to.as_ref().and_then(instance) {
            self.settings.retain(|about, _| !about.starts_with("uri "));
        }
        self.settings.extend(to.map(|request| (INSTANCE.to_owned(), request)));
    }

    fn note_notification(&mut self, notification: &Notification) {
        if notification.method == Method::INITIALIZED
            && let Some(handshake) = &mut self.handshake
        {
            handshake.is_confirmed = true;
        }
        if notification.method == Method::CANCELLED {
            // The client no longer waits for its answer.
            let id = notification.params.as_ref().and_then(|params| params.member("requestId"));
            id.and_then(Id::from_raw).map(|id| self.calls.remove(&id));
        }
    }

    /// The client's answer goes to the gateway that asked, under that gateway's id.
    fn note_answer(&mut self, response: Response, line: Bytes) -> Option<Bytes> {
        let own = response.id.as_ref().and_then(|id| self.asked.remove(id));
        match own {
            Some(own) if Some(&own) == response.id.as_ref() => Some(line),
            Some(own) => Some(Message::Response(Response { id: Some(own), ..response }).render()),
            None if self.generation == 0 => Some(line),
            // The gateway that asked is gone.
            None => None,
        }
    }

    /// Handles a line from the gateway; returns the lines for the client.
    pub(crate) fn gateway_sent(&mut self, line: Bytes) -> Vec<Bytes> {
        match Incoming::parse(&line) {
            Ok(Incoming::One(Message::Response(response))) => self.answered(&response, line),
            Ok(Incoming::One(Message::Request(request))) => vec![self.asks(request, line)],
            Ok(Incoming::One(Message::Notification(notification)))
                if self.generation > 0 && notification.method == Method::CANCELLED =>
            {
                vec![self.takes_back(notification, line)]
            }
            Ok(Incoming::Batch(parts)) => {
                for part in parts.into_iter().flatten() {
                    if let Message::Response(Response { id: Some(id), .. }) = part {
                        self.answers += u64::from(self.calls.remove(&id).is_some());
                    }
                }
                vec![line]
            }
            _ => vec![line],
        }
    }

    fn answered(&mut self, response: &Response, line: Bytes) -> Vec<Bytes> {
        let Some(id) = &response.id else { return vec![line] };
        if self.returning.as_ref() == Some(id) {
            self.returning = None;
        }
        if let Some(to) = self.turning.remove(id)
            && response
                .outcome
                .as_ref()
                .is_ok_and(|result| result.member("isError").is_none_or(|failed| failed.as_str() != "true"))
        {
            self.turned(to);
        }
        if self.repeated.remove(id) {
            return response.outcome.as_ref().map(changes).unwrap_or_default();
        }
        self.answers += u64::from(self.calls.remove(id).is_some());
        if let Some(handshake) = &mut self.handshake
            && handshake.request.id == *id
        {
            handshake.is_answered = response.outcome.is_ok();
        }
        vec![line]
    }

    /// Passes on a question of the gateway. After the first gateway the question gets an id of our own: every gateway
    /// numbers its questions from one, and the client may still have an open question of an earlier gateway.
    fn asks(&mut self, request: RequestMessage, line: Bytes) -> Bytes {
        if self.generation == 0 {
            self.asked.insert(request.id.clone(), request.id);
            return line;
        }
        let shown = self.shown(&request.id);
        self.asked.insert(shown.clone(), request.id.clone());
        Message::Request(RequestMessage { id: shown, ..request }).render()
    }

    fn shown(&self, id: &Id) -> Id {
        Id::string(&format!("yard-{}-{}", self.generation, id.as_raw().as_str()))
    }

    /// The gateway has withdrawn its question.
    fn takes_back(&mut self, notification: Notification, line: Bytes) -> Bytes {
        let Notification { method, params } = notification;
        let id = params.as_ref().and_then(|params| params.member("requestId")).and_then(Id::from_raw);
        let shown = id.map(|id| self.shown(&id)).filter(|shown| self.asked.contains_key(shown));
        let Some(shown) = shown else { return line };
        self.asked.remove(&shown);
        let params = params.map(|params| params.with("requestId", shown.as_raw()));
        Message::Notification(Notification { method, params }).render()
    }

    /// The gateway is lost: returns the messages that the client must receive. `why` completes "… while it was under
    /// way".
    pub(crate) fn lost(&mut self, why: &str) -> Vec<Bytes> {
        self.generation += 1;
        self.repeated.clear();
        self.turning.clear();
        self.returning = None;
        let first = self.handshake.as_ref().filter(|handshake| !handshake.is_answered);
        let kept = first.map(|handshake| handshake.request.id.clone());
        self.calls.values_mut().for_each(|call| call.losses = call.losses.saturating_add(1));
        let failed = self.calls.extract_if(|id, call| Some(id) != kept.as_ref() && !call.may_be_repeated());
        let mut lines: Vec<Bytes> = failed.map(|(id, call)| call.failed(id, why)).collect();
        lines.extend(self.asked.drain().map(|(shown, _)| {
            let params = Raw::from(json!({ "reason": why })).with("requestId", shown.as_raw());
            Message::Notification(Notification::new(Method::CANCELLED, params)).render()
        }));
        lines
    }

    /// Like [`Memory::lost`], if there will be no other gateway: no request is kept for it.
    pub(crate) fn given_up(&mut self, why: &str) -> Vec<Bytes> {
        self.handshake = None;
        self.calls.values_mut().for_each(|call| call.read_only = None);
        self.lost(why)
    }

    /// Returns errors for requests that were not sent to any gateway.
    pub(crate) fn not_passed_on(&mut self, why: &str) -> Vec<Bytes> {
        self.handshake = None;
        self.calls.drain().map(|(id, call)| call.not_passed_on(id, why)).collect()
    }

    /// The client disconnects: errors for its unanswered calls. Subscriptions end without an answer.
    pub(crate) fn unanswered(&mut self, why: &str) -> Vec<Bytes> {
        let calls = self.calls.drain().filter(|(_, call)| call.method != Method::LISTEN);
        calls.map(|(id, call)| call.failed(id, why)).collect()
    }

    /// How many calls of the client have been answered.
    pub(crate) fn answers(&self) -> u64 {
        self.answers
    }

    /// The first messages to a new gateway. A hub session reconnects to its instance with them.
    pub(crate) fn introduction(&mut self) -> Vec<Bytes> {
        let Some(handshake) = &self.handshake else { return Vec::new() };
        let (request, is_confirmed) = (handshake.request.clone(), handshake.is_confirmed);
        if !handshake.is_answered {
            return vec![Message::Request(request).render()];
        }
        let mut lines = vec![self.again(request).1];
        if is_confirmed {
            lines.push(Message::Notification(Notification::new(Method::INITIALIZED, None)).render());
        }
        if let Some(request) = self.settings.get(INSTANCE).cloned() {
            let (id, line) = self.again(request);
            self.returning = Some(id);
            lines.push(line);
        }
        lines
    }

    /// Whether the session is connected to its instance again, or never will be.
    pub(crate) fn has_returned(&self) -> bool {
        self.returning.is_none()
    }

    /// The messages to a new gateway that follow the introduction: the settings of the session.
    pub(crate) fn settings(&mut self) -> Vec<Bytes> {
        if self.handshake.as_ref().is_none_or(|handshake| !handshake.is_answered) {
            return Vec::new();
        }
        let settings = self.settings.iter().filter(|(about, _)| *about != INSTANCE);
        let settings: Vec<RequestMessage> = settings.map(|(_, request)| request.clone()).collect();
        settings.into_iter().map(|request| self.again(request).1).collect()
    }

    /// Requests in flight at the lost gateway, which are sent to this one under their own ids.
    pub(super) fn repeats(&self) -> Vec<Bytes> {
        let lost = self.calls.values().filter(|call| call.losses > 0);
        let requests = lost.filter_map(|call| call.read_only.clone());
        requests.map(|request| Message::Request(request).render()).collect()
    }

    /// Repeats a request under an id of our own.
    fn again(&mut self, request: RequestMessage) -> (Id, Bytes) {
        self.repeats += 1;
        let id = Id::string(&format!("yard-again-{}-{}", self.generation, self.repeats));
        self.repeated.insert(id.clone());
        (id.clone(), Message::Request(RequestMessage { id, ..request }).render())
    }

    /// Whether the client waits for no answer. Subscriptions do not count, because they do not end by themselves.
    pub(crate) fn is_idle(&self) -> bool {
        self.calls.values().all(|call| call.method == Method::LISTEN)
    }
}

impl Call {
    fn may_be_repeated(&self) -> bool {
        self.read_only.is_some() && self.losses <= MOST_REPEATS
    }

    fn new(request: &RequestMessage) -> Self {
        let method = request.method.clone();
        let name = request.params.as_ref().and_then(|params| params.member("name")?.as_string());
        let what = match name {
            Some(name) => format!("`{name}`"),
            None => method.as_str().to_owned(),
        };
        let stamped = claim(request.params.as_deref()) != Claim::None;
        let read_only = READ_ONLY.contains(&method.as_str()).then(|| request.clone());
        Self { what, stamped, read_only, losses: 0, method }
    }

    fn failed(&self, id: Id, why: &str) -> Bytes {
        let message = format!(
            "{why} while {} was under way; whether it was carried out is not known. Call it again if that is safe",
            self.what
        );
        self.answer(id, &CallError::lost(message).with_origin(Fault::Gateway))
    }

    fn not_passed_on(&self, id: Id, why: &str) -> Bytes {
        let message = format!("{why}; {} was not sent", self.what);
        self.answer(id, &CallError::unavailable(message).with_origin(Fault::Gateway))
    }

    /// The failure of a tool call is a tool result; every other failure is a protocol error.
    fn answer(&self, id: Id, error: &CallError) -> Bytes {
        let is_tool = self.method == Method::TOOLS_CALL;
        let outcome = match (is_tool, self.stamped) {
            (true, true) => Ok(stamp_result(&error.to_tool_result(), None)),
            (true, false) => Ok(error.to_tool_result()),
            (false, _) => Err(error.to_raw()),
        };
        Message::Response(Response { id: Some(id), outcome }).render()
    }
}

/// The notifications for a client after a repeated handshake, so that it reads the lists again.
fn changes(greeting: &Raw) -> Vec<Bytes> {
    let announces = |capability: &&str| {
        let flag = greeting.at(&["capabilities", capability, "listChanged"]);
        flag.is_some_and(|flag| flag.as_bytes() == b"true")
    };
    let changed = CHANGES.iter().filter(|(capability, _)| announces(capability));
    changed
        .map(|(_, method)| Message::Notification(Notification::new(method.clone(), None)).render())
        .collect()
}

#[cfg(test)]
mod tests;
