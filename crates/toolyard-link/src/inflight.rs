//! The calls in flight on one channel: which client made each of them, and to which client a message belongs that names
//! no call.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use toolyard_proto::{Method, Raw};

use toolyard_model::{ClientKey, Peer, Principal};

/// For how long after a cancel the upstream may still ask a question about the cancelled call.
const LINGER: Duration = Duration::from_secs(5);
/// How many cancelled calls are remembered.
const MOST_LEFT: usize = 64;

/// One call in flight, with the data that its link keeps for it.
pub(crate) struct Flight<T> {
    pub(crate) client: ClientKey,
    pub(crate) principal: Principal,
    pub(crate) peer: Peer,
    /// The client's progress token, if the link has replaced it.
    pub(crate) token: Option<Raw>,
    /// Whether messages without an address may belong to this call: see [`is_addressable`].
    pub(crate) addressable: bool,
    pub(crate) more: T,
}

/// Whether a question can belong to such a call. It cannot for the gateway's own calls, for an open listen and for
/// requests that only read or set something; counting these would make every other call ambiguous.
pub(crate) fn is_addressable(client: &ClientKey, method: &Method) -> bool {
    const NEVER_ASK: [Method; 8] = [
        Method::LISTEN,
        Method::PING,
        Method::SET_LEVEL,
        Method::RESOURCES_SUBSCRIBE,
        Method::RESOURCES_UNSUBSCRIBE,
        Method::TASKS_GET,
        Method::TASKS_LIST,
        Method::TASKS_CANCEL,
    ];
    *client != ClientKey::Gateway && !NEVER_ASK.contains(method)
}

/// The client that a message without an address belongs to.
#[derive(Debug)]
pub(crate) enum Addressee {
    None,
    /// All calls in flight are from this client; the peer is that of the oldest call.
    One(Peer, ClientKey),
    Several,
}

pub(crate) struct InFlight<T> {
    flights: HashMap<u64, Flight<T>>,
    clients: HashMap<ClientKey, usize>,
    /// The number of addressable calls whose client key several programs may share. Each counts as a separate client.
    alone: usize,
    /// Addressable calls in order of age; may still hold calls that ended (see `tidy`).
    ages: VecDeque<u64>,
    /// Addressable calls that were cancelled before their answer came, the latest last.
    left: VecDeque<Left>,
}

struct Left {
    id: u64,
    principal: Principal,
    at: Instant,
}

impl<T> Default for InFlight<T> {
    fn default() -> Self {
        Self {
            flights: HashMap::new(),
            clients: HashMap::new(),
            alone: 0,
            ages: VecDeque::new(),
            left: VecDeque::new(),
        }
    }
}

impl<T> InFlight<T> {
    /// Adds a call. `id` must be larger than every earlier id.
    pub(crate) fn insert(&mut self, id: u64, flight: Flight<T>) {
        if flight.addressable {
            if flight.client.may_span_programs() {
                self.alone += 1;
            } else {
                *self.clients.entry(flight.client.clone()).or_default() += 1;
            }
            self.tidy();
            self.ages.push_back(id);
        }
        self.flights.insert(id, flight);
    }

    pub(crate) fn get(&self, id: u64) -> Option<&Flight<T>> {
        self.flights.get(&id)
    }

    pub(crate) fn find(&self, is_it: impl Fn(&Flight<T>) -> bool) -> Option<&Flight<T>> {
        self.flights.values().find(|flight| is_it(flight))
    }

    pub(crate) fn remove(&mut self, id: u64) -> Option<Flight<T>> {
        let flight = self.flights.remove(&id)?;
        if flight.addressable && flight.client.may_span_programs() {
            self.alone -= 1;
        } else if flight.addressable
            && let Some(count) = self.clients.get_mut(&flight.client)
        {
            *count -= 1;
            if *count == 0 {
                self.clients.remove(&flight.client);
            }
        }
        Some(flight)
    }

    /// Removes a cancelled call. The upstream may not know of the cancel yet.
    pub(crate) fn leave(&mut self, id: u64, now: Instant) -> Option<Flight<T>> {
        let flight = self.remove(id)?;
        if flight.addressable {
            if self.left.len() >= MOST_LEFT {
                self.left.pop_front();
            }
            self.left.push_back(Left { id, principal: flight.principal.clone(), at: now });
        }
        Some(flight)
    }

    /// The upstream has answered a call that was cancelled.
    pub(crate) fn answered_late(&mut self, id: u64) {
        self.left.retain(|left| left.id != id);
    }

    pub(crate) fn len(&self) -> usize {
        self.flights.len()
    }

    pub(crate) fn addressee(&mut self) -> Addressee {
        if self.clients.len() + self.alone > 1 {
            return Addressee::Several;
        }
        let one = |flight: &Flight<T>| Addressee::One(flight.peer.clone(), flight.client.clone());
        self.of_one_client().map_or(Addressee::None, one)
    }

    /// The oldest call that a message without an address may belong to, if all of them are from one client.
    pub(crate) fn of_one_client(&mut self) -> Option<&Flight<T>> {
        if self.clients.len() + self.alone == 1 { self.oldest() } else { None }
    }

    /// The client that must be asked. `Several` while the question may be about a call that another user has just
    /// cancelled, because the wrong user must not answer it.
    pub(crate) fn asked(&mut self, now: Instant) -> Addressee {
        self.left.retain(|left| now.saturating_duration_since(left.at) < LINGER);
        let is_of_another = |left: &Left, asked: &Flight<T>| left.principal != asked.principal;
        let left = std::mem::take(&mut self.left);
        let is_doubtful =
            self.oldest().is_some_and(|asked| left.iter().any(|left| is_of_another(left, asked)));
        self.left = left;
        if is_doubtful { Addressee::Several } else { self.addressee() }
    }

    /// The calls that a message without an address may belong to: those under way and those that were just cancelled.
    pub(crate) fn candidates(&self) -> Vec<u64> {
        let addressable = self.flights.iter().filter(|(_, flight)| flight.addressable);
        addressable.map(|(id, _)| *id).chain(self.left.iter().map(|left| left.id)).collect()
    }

    /// The client that must be asked, if the question arrived while `candidates` were in flight. A candidate that has
    /// been answered since did not ask; a candidate that another user has just cancelled may have asked.
    pub(crate) fn asked_among(&mut self, candidates: &[u64], now: Instant) -> Addressee {
        self.left.retain(|left| now.saturating_duration_since(left.at) < LINGER);
        let mut open: Vec<u64> =
            candidates.iter().copied().filter(|id| self.flights.contains_key(id)).collect();
        open.sort_unstable();
        let flights: Vec<&Flight<T>> = open.iter().filter_map(|id| self.flights.get(id)).collect();
        let Some(oldest) = flights.first() else { return Addressee::None };
        let is_other =
            |flight: &&&Flight<T>| flight.client != oldest.client || flight.client.may_span_programs();
        let was_left = |left: &Left| candidates.contains(&left.id) && left.principal != oldest.principal;
        if flights.iter().skip(1).any(|flight| is_other(&flight)) || self.left.iter().any(was_left) {
            return Addressee::Several;
        }
        Addressee::One(oldest.peer.clone(), oldest.client.clone())
    }

    /// Whether all calls in flight are from one user, so that a wrong attribution reveals nothing to another user.
    pub(crate) fn are_of_one_principal(&self) -> bool {
        let mut principals = self.flights.values().filter(|flight| flight.addressable).map(|f| &f.principal);
        let first = principals.next();
        principals.all(|principal| Some(principal) == first)
    }

    fn oldest(&mut self) -> Option<&Flight<T>> {
        while let Some(id) = self.ages.front() {
            if self.flights.contains_key(id) {
                break;
            }
            self.ages.pop_front();
        }
        self.flights.get(self.ages.front()?)
    }

    /// Keeps `ages` within twice the number of calls under way, at constant cost per call on average.
    fn tidy(&mut self) {
        if self.ages.len() > 2 * self.flights.len() + 64 {
            self.ages.retain(|id| self.flights.contains_key(id));
        }
    }

    /// Removes and returns all calls, so that the caller can fail them.
    pub(crate) fn drain(&mut self) -> Vec<Flight<T>> {
        self.clients.clear();
        self.alone = 0;
        self.left.clear();
        self.ages.clear();
        self.flights.drain().map(|(_, flight)| flight).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flight(client: u64, addressable: bool) -> Flight<()> {
        let client = ClientKey::Connection(client);
        let principal = Principal::token(&format!("user {client:?}"));
        Flight { client, principal, peer: Peer::none(), token: None, addressable, more: () }
    }

    fn kind(calls: &mut InFlight<()>) -> &'static str {
        match calls.addressee() {
            Addressee::None => "none",
            Addressee::One(..) => "one",
            Addressee::Several => "several",
        }
    }

    #[test]
    fn an_addressee_is_known_only_while_one_client_is_calling() {
        let mut calls = InFlight::default();
        calls.insert(1, flight(0, false));
        assert_eq!(kind(&mut calls), "none");
        calls.insert(2, flight(1, true));
        calls.insert(3, flight(1, true));
        assert_eq!(kind(&mut calls), "one");
        calls.insert(4, flight(2, true));
        assert_eq!(kind(&mut calls), "several");
        assert!(calls.remove(2).is_some() && calls.remove(3).is_some() && calls.remove(3).is_none());
        assert_eq!(kind(&mut calls), "one");
        assert!(calls.remove(4).is_some());
        assert_eq!(kind(&mut calls), "none");
    }

    #[test]
    fn calls_with_one_credential_may_come_from_several_clients() {
        let with_token =
            || Flight { client: ClientKey::Principal(Principal::token("token")), ..flight(0, true) };
        let mut calls = InFlight::default();
        calls.insert(1, with_token());
        assert_eq!(kind(&mut calls), "one");
        calls.insert(2, with_token());
        assert_eq!(kind(&mut calls), "several");
        calls.remove(1);
        assert_eq!(kind(&mut calls), "one");
        calls.insert(3, flight(1, true));
        assert_eq!(kind(&mut calls), "several");
        calls.drain();
        assert_eq!(kind(&mut calls), "none");
    }

    #[test]
    fn a_question_may_be_about_a_call_that_was_just_cancelled() {
        let start = Instant::now();
        let check = |caller: u64, later: Duration, answered: bool| {
            let mut calls = InFlight::default();
            calls.insert(1, flight(1, true));
            calls.leave(1, start);
            calls.insert(2, flight(caller, true));
            if answered {
                calls.answered_late(1);
            }
            let now = start + later;
            let asked = calls.asked(now);
            let candidates = calls.candidates();
            // The question then waits, and is decided again in the same way.
            let waiting = calls.asked_among(&candidates, now);
            let [asked, waiting] = [asked, waiting].map(|addressee| match addressee {
                Addressee::None => "none",
                Addressee::One(..) => "one",
                Addressee::Several => "several",
            });
            assert_eq!(asked, waiting);
            asked
        };
        assert_eq!(check(2, Duration::ZERO, false), "several");
        assert_eq!(check(2, Duration::ZERO, true), "one");
        assert_eq!(check(2, LINGER, false), "one");
        assert_eq!(check(1, Duration::ZERO, false), "one");
    }

    #[test]
    fn a_question_is_for_the_client_whose_call_is_the_last_of_those_that_may_have_asked_it() {
        let start = Instant::now();
        let kind = |calls: &mut InFlight<()>, candidates: &[u64], later: Duration| match calls
            .asked_among(candidates, start + later)
        {
            Addressee::None => "none",
            Addressee::One(..) => "one",
            Addressee::Several => "several",
        };
        let mut calls = InFlight::default();
        (1..=3).for_each(|id| calls.insert(id, flight(id, true)));
        calls.insert(4, flight(9, false));
        let mut candidates = calls.candidates();
        candidates.sort_unstable();
        assert_eq!(candidates, [1, 2, 3]);
        // One that came later did not ask.
        calls.insert(5, flight(5, true));
        assert_eq!(kind(&mut calls, &candidates, Duration::ZERO), "several");
        calls.remove(1);
        calls.leave(2, start);
        assert_eq!(kind(&mut calls, &candidates, Duration::ZERO), "several");
        assert_eq!(kind(&mut calls, &candidates, LINGER), "one");
        calls.remove(3);
        assert_eq!(kind(&mut calls, &candidates, LINGER), "none");
    }

    #[test]
    fn a_call_that_never_ends_does_not_make_the_table_grow() {
        let mut calls = InFlight::default();
        calls.insert(0, flight(1, true));
        for id in 1..10_000 {
            calls.insert(id, flight(1, true));
            calls.remove(id);
        }
        assert!(calls.ages.len() < 100, "{}", calls.ages.len());
    }
}
