//! The state of one limit: what runs, what waits, and what may start now. Time is an argument.

use std::collections::VecDeque;
use std::hash::Hash;
use std::time::{Duration, Instant};

use crate::queue::{FairQueue, QueueTicket};
use crate::{Limit, Share};

/// The shortest wait that a refusal suggests.
const MIN_RETRY: Duration = Duration::from_millis(100);

/// The demand for a limit that several gateways share.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Demand {
    /// Calls that have asked to start since this was last read, or wait.
    pub asked: u32,
    pub running: usize,
    /// Starts that the window counts.
    pub started: usize,
}

/// The decision about a call that asks to start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Offer {
    Started,
    Waiting(QueueTicket),
    Refused(Refusal),
}

/// Why a call may neither start nor wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error("too many calls are waiting")]
    QueueFull { retry_after: Duration },
    #[error("the call waited for the maximum time")]
    WaitedTooLong { retry_after: Duration },
}

impl Refusal {
    /// When a further attempt is likely to succeed.
    pub fn retry_after(self) -> Duration {
        match self {
            Self::QueueFull { retry_after } | Self::WaitedTooLong { retry_after } => retry_after,
        }
    }
}

#[derive(Debug)]
pub struct State<K> {
    /// The limit in force: the whole limit, or this gateway's share of it.
    limit: Limit,
    whole: Limit,
    /// Calls that have asked to start since this was last read.
    asked: u32,
    running: usize,
    queue: FairQueue<K>,
    next_ticket: u64,
    /// The theoretical arrival time of the next start on the even schedule of the rate.
    scheduled: Option<Instant>,
    /// The latest starts, oldest first; as many as the window counts.
    starts: VecDeque<Instant>,
    /// A moving average of how long calls run.
    mean_run: Option<Duration>,
}

impl<K: Clone + Eq + Hash> State<K> {
    pub fn new(limit: Limit) -> Self {
        let starts = VecDeque::with_capacity(limit.window.map_or(0, |window| window.count.min(1024)));
        Self {
            whole: limit.clone(),
            asked: 0,
            limit,
            running: 0,
            queue: FairQueue::default(),
            next_ticket: 0,
            scheduled: None,
            starts,
            mean_run: None,
        }
    }

    pub fn limit(&self) -> &Limit {
        &self.limit
    }

    /// Uses only a share of the limit, because other gateways use the rest of it.
    pub fn set_share(&mut self, share: &Share) {
        self.limit = self.whole.share(share);
    }

    /// How much is asked of the limit, and how much of it is used now.
    pub fn take_demand(&mut self, now: Instant) -> Demand {
        let waiting = u32::try_from(self.queue.len()).unwrap_or(u32::MAX);
        let asked = std::mem::take(&mut self.asked).saturating_add(waiting);
        let started = self.whole.window.map_or(0, |window| {
            let is_recent = |start: &&Instant| now.saturating_duration_since(**start) < window.per;
            self.starts.iter().rev().take_while(is_recent).count()
        });
        Demand { asked, running: self.running, started }
    }

    pub fn running(&self) -> usize {
        self.running
    }

    pub fn waiting(&self) -> usize {
        self.queue.len()
    }

    /// Whether nothing runs or waits and no start is remembered at `now`, so that a new state would behave the same.
    pub fn is_idle(&self, now: Instant) -> bool {
        let window_is_clear = self.limit.window.is_none_or(|window| {
            self.starts.back().is_none_or(|last| now.saturating_duration_since(*last) >= window.per)
        });
        let rate_is_clear = self.scheduled.is_none_or(|scheduled| scheduled <= now);
        self.running == 0 && self.waiting() == 0 && window_is_clear && rate_is_clear
    }

    /// A call of `client` asks to start. The second value is a waiting call of another client that must give up its
    /// place.
    pub fn offer(&mut self, now: Instant, client: K) -> (Offer, Option<QueueTicket>) {
        self.asked = self.asked.saturating_add(1);
        if self.queue.len() == 0 && self.may_start(now) {
            self.record_start(now);
            return (Offer::Started, None);
        }
        let mut displaced = None;
        if self.queue.len() >= self.limit.queue {
            displaced = self.queue.displace_for(&client);
            if displaced.is_none() {
                return (Offer::Refused(Refusal::QueueFull { retry_after: self.retry_after(now) }), None);
            }
        }
        let ticket = QueueTicket(self.next_ticket);
        self.next_ticket += 1;
        self.queue.push(client, ticket);
        (Offer::Waiting(ticket), displaced)
    }

    /// The next waiting call that may start at `now`; it counts as running from here on.
    pub fn start_next(&mut self, now: Instant) -> Option<QueueTicket> {
        if self.queue.len() == 0 || !self.may_start(now) {
            return None;
        }
        let ticket = self.queue.pop()?;
        self.record_start(now);
        Some(ticket)
    }

    /// When the next waiting call may start if nothing but time passes. `None` if nothing waits, or if a running call
    /// must end first.
    pub fn next_start(&self, now: Instant) -> Option<Instant> {
        if self.queue.len() == 0 || self.is_saturated() {
            return None;
        }
        Some(self.earliest_start(now))
    }

    /// A waiting call gives up; returns whether it was still waiting.
    pub fn leave(&mut self, ticket: QueueTicket) -> bool {
        self.queue.remove(ticket)
    }

    /// A running call ended after `ran`.
    pub fn end(&mut self, ran: Duration) {
        self.running = self.running.saturating_sub(1);
        self.mean_run = Some(self.mean_run.map_or(ran, |mean| (mean * 7 + ran) / 8));
    }

    /// How many waiting calls come before this one.
    pub fn place(&self, ticket: QueueTicket) -> Option<usize> {
        self.queue.place(ticket)
    }

    /// After what time an attempt that is refused now is likely to succeed: when the waiting calls have started,
    /// estimated from rate, window and the duration of recent calls.
    pub fn retry_after(&self, now: Instant) -> Duration {
        let ahead = u32::try_from(self.queue.len()).unwrap_or(u32::MAX).saturating_add(1);
        let paced = self.earliest_start(now).saturating_duration_since(now);
        let rate = self.limit.rate.map_or(Duration::ZERO, |rate| rate.interval().saturating_mul(ahead - 1));
        let window = self.limit.window.map_or(Duration::ZERO, |window| {
            let rounds = (self.queue.len() / window.count.max(1)).min(1_000_000);
            window.per.saturating_mul(u32::try_from(rounds).unwrap_or(u32::MAX))
        });
        let runs = match (self.limit.concurrent, self.mean_run) {
            (Some(slots), Some(mean)) => {
                mean.saturating_mul(ahead) / u32::try_from(slots.max(1)).unwrap_or(u32::MAX)
            }
            _ => Duration::ZERO,
        };
        (paced + rate.max(window)).max(runs).max(MIN_RETRY)
    }

    fn may_start(&self, now: Instant) -> bool {
        !self.is_saturated() && self.earliest_start(now) <= now
    }

    fn is_saturated(&self) -> bool {
        self.limit.concurrent.is_some_and(|slots| self.running >= slots)
    }

    /// The first moment from `now` on that rate and window allow.
    fn earliest_start(&self, now: Instant) -> Instant {
        let by_rate = self
            .limit
            .rate
            .zip(self.scheduled)
            .and_then(|(rate, scheduled)| scheduled.checked_sub(rate.tolerance()));
        let by_window = self.limit.window.and_then(|window| {
            // More starts are remembered than a share allows, so that a larger share later counts them.
            let oldest = self.starts.len().checked_sub(window.count)?;
            // A share of zero is checked again when shares are set.
            Some(self.starts.get(oldest).map_or(now + MIN_RETRY, |start| *start + window.per))
        });
        now.max(by_rate.unwrap_or(now)).max(by_window.unwrap_or(now))
    }

    fn record_start(&mut self, now: Instant) {
        self.running += 1;
        if let Some(rate) = self.limit.rate {
            let scheduled = self.scheduled.map_or(now, |scheduled| scheduled.max(now));
            self.scheduled = Some(scheduled + rate.interval());
        }
        if let Some(window) = self.whole.window {
            if self.starts.len() >= window.count.max(1) {
                self.starts.pop_front();
            }
            self.starts.push_back(now);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_share_allows_its_part_and_a_larger_one_later_counts_what_was_started() {
        let now = Instant::now();
        let mut state = State::new(Limit { queue: 0, ..Limit::window(10, Duration::from_mins(1)) });
        let share = |window| Share { rate: 1.0, concurrent: None, window: Some(window) };
        state.set_share(&share(3));
        let started = |state: &mut State<&'static str>| {
            (0..20).filter(|_| state.offer(now, "a").0 == Offer::Started).count()
        };
        assert_eq!(started(&mut state), 3);
        assert_eq!(state.take_demand(now), Demand { asked: 20, running: 3, started: 3 });
        assert_eq!(state.take_demand(now).asked, 0);
        state.set_share(&share(10));
        assert_eq!(started(&mut state), 7);
        state.set_share(&share(5));
        assert_eq!(started(&mut state), 0);
        let later = now + Duration::from_mins(2);
        assert_eq!(state.take_demand(later).started, 0);
        state.set_share(&share(0));
        assert!(matches!(state.offer(later, "a").0, Offer::Refused(_)), "a share of nothing");
        state.set_share(&share(1));
        assert_eq!(state.offer(later, "a").0, Offer::Started);
    }

    #[test]
    fn no_more_run_at_once_than_the_limit_allows() {
        let now = Instant::now();
        let mut state = State::new(Limit::concurrent(2));
        assert_eq!(state.offer(now, "a").0, Offer::Started);
        assert_eq!(state.offer(now, "a").0, Offer::Started);
        let (Offer::Waiting(ticket), None) = state.offer(now, "a") else { panic!("it must wait") };
        assert_eq!(state.start_next(now + SECOND), None);
        assert_eq!(state.next_start(now), None);
        state.end(SECOND);
        assert_eq!(state.start_next(now + SECOND), Some(ticket));
    }

    #[test]
    fn a_window_opens_when_its_oldest_start_leaves_it() {
        let now = Instant::now();
        let mut state = State::new(Limit::window(2, 60 * SECOND));
        assert_eq!(state.offer(now, "a").0, Offer::Started);
        assert_eq!(state.offer(now + SECOND, "a").0, Offer::Started);
        let (Offer::Waiting(ticket), None) = state.offer(now + 2 * SECOND, "a") else {
            panic!("it must wait")
        };
        assert_eq!(state.next_start(now + 2 * SECOND), Some(now + 60 * SECOND));
        assert_eq!(state.start_next(now + Duration::from_millis(59_999)), None);
        assert_eq!(state.start_next(now + 60 * SECOND), Some(ticket));
    }

    #[test]
    fn a_rate_spaces_starts_evenly_after_the_burst() {
        let now = Instant::now();
        let mut state = State::new(Limit::rate(2, SECOND, 3));
        for _ in 0..3 {
            assert_eq!(state.offer(now, "a").0, Offer::Started);
        }
        assert!(matches!(state.offer(now, "a").0, Offer::Waiting(_)));
        assert_eq!(state.next_start(now), Some(now + SECOND / 2));
    }

    #[test]
    fn a_refusal_states_when_the_calls_ahead_will_have_started() {
        let now = Instant::now();
        let mut state = State::new(Limit { queue: 1, ..Limit::rate(1, 10 * SECOND, 1) });
        assert_eq!(state.offer(now, "a").0, Offer::Started);
        assert!(matches!(state.offer(now, "a").0, Offer::Waiting(_)));
        let (Offer::Refused(refusal), None) = state.offer(now, "a") else { panic!("the queue is full") };
        assert_eq!(refusal.retry_after(), 20 * SECOND);
    }

    #[test]
    fn an_idle_limit_can_be_forgotten_once_nothing_is_remembered() {
        let now = Instant::now();
        let mut state = State::new(Limit::window(1, SECOND));
        assert!(state.is_idle(now));
        assert_eq!(state.offer(now, "a").0, Offer::Started);
        assert!(!state.is_idle(now));
        state.end(SECOND);
        assert!(!state.is_idle(now + SECOND / 2));
        assert!(state.is_idle(now + SECOND));
    }

    #[derive(Clone, Debug)]
    enum Event {
        Offer(u8),
        End,
        Pass(u64),
    }

    fn event() -> impl Strategy<Value = Event> {
        prop_oneof![
            3 => (0_u8..4).prop_map(Event::Offer),
            2 => Just(Event::End),
            2 => (0_u64..20_000).prop_map(Event::Pass),
        ]
    }

    proptest! {
        /// Whatever happens in whatever order, neither bound is ever exceeded.
        #[test]
        fn bounds_hold(events in prop::collection::vec(event(), 1..300)) {
            let mut now = Instant::now();
            let limit = Limit { concurrent: Some(3), ..Limit::window(5, 10 * SECOND) };
            let mut state = State::new(limit);
            let mut starts: Vec<Instant> = Vec::new();
            let mut running = 0_usize;
            for event in events {
                match event {
                    Event::Offer(client) => {
                        if state.offer(now, client).0 == Offer::Started {
                            starts.push(now);
                            running += 1;
                        }
                    }
                    Event::End if running > 0 => {
                        running -= 1;
                        state.end(SECOND);
                    }
                    Event::End => {}
                    Event::Pass(ms) => now += Duration::from_millis(ms),
                }
                while state.start_next(now).is_some() {
                    starts.push(now);
                    running += 1;
                }
                prop_assert_eq!(state.running(), running);
                prop_assert!(running <= 3);
                for (at, start) in starts.iter().enumerate() {
                    let within = starts[at..].iter().filter(|later| **later - *start < 10 * SECOND).count();
                    prop_assert!(within <= 5);
                }
                if let Some(due) = state.next_start(now) {
                    prop_assert!(due > now);
                }
            }
        }
    }
}
