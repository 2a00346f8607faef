//! The event streams of one legacy HTTP session: one for each POST whose answer became a stream, and one,
//! number 0, for what belongs to no call. Clients of 2025-11-25 get event ids and can reconnect for the events
//! that they missed, which are kept in a bounded ring. For clients of earlier revisions, a lost stream is not resumed.

mod reader;
mod ring;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use toolyard_model::BoxFuture;
use toolyard_proto::Revision;

use crate::calls::Outlet;
use crate::endpoint::Counts;
use crate::outbox::Weight;
use crate::reply::Rendered;
pub(crate) use reader::{FirstRead, Reader};
use ring::{Kept, Ring};

/// The stream for messages outside of calls.
const OUTSIDE: u64 = 0;

/// How many ended streams have their last position remembered.
const MOST_ENDED: usize = 1_000;

pub(crate) struct Streams {
    resumable: bool,
    keep_alive: Duration,
    counts: Arc<Counts>,
    state: Mutex<ReplayState>,
}

struct ReplayState {
    next: u64,
    streams: HashMap<u64, Stream>,
    ring: Ring,
    /// Streams that are over, and their last positions.
    ended: VecDeque<(u64, u64)>,
    closed: bool,
}

/// One stream and what waits for its reader.
#[derive(Default)]
struct Stream {
    waiting: VecDeque<Item>,
    /// The position of the newest message.
    position: u64,
    /// Answers still to come; the stream ends with the last.
    outstanding: usize,
    /// Whether it has become an event stream, with ids that a client can come back to.
    started: bool,
    hang_up: Option<Duration>,
    /// The number of the current reader; a newer one replaces it. `None` if there is no reader.
    reader: Option<u64>,
    readers: u64,
    waker: Option<Waker>,
}

#[derive(Clone)]
struct Item {
    position: u64,
    message: Rendered,
    is_answer: bool,
}

impl Stream {
    fn is_over(&self) -> bool {
        self.outstanding == 0
    }

    fn attach(&mut self) -> u64 {
        self.readers += 1;
        self.reader = Some(self.readers);
        self.wake();
        self.readers
    }

    fn wake(&mut self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

impl Streams {
    pub(crate) fn new(revision: Revision, keep_alive: Duration, counts: Arc<Counts>) -> Arc<Self> {
        let outside = Stream { outstanding: usize::MAX, started: true, ..Stream::default() };
        let streams = HashMap::from([(OUTSIDE, outside)]);
        let state =
            ReplayState { next: 1, streams, ring: Ring::default(), ended: VecDeque::new(), closed: false };
        let resumable = revision >= Revision::V2025_11_25;
        Arc::new(Self { resumable, keep_alive, counts, state: Mutex::new(state) })
    }

    /// Opens a stream for calls that will have this number of answers; returns its first reader.
    pub(crate) fn open(self: &Arc<Self>, answers: usize) -> Reader {
        let mut state = self.state();
        let number = state.next;
        state.next += 1;
        let mut stream = Stream { outstanding: answers, ..Stream::default() };
        let reader = stream.attach();
        if !state.closed {
            state.streams.insert(number, stream);
        }
        drop(state);
        Reader::new(self.clone(), number, reader)
    }

    /// A reader of what belongs to no call; it replaces the one before it.
    pub(crate) fn open_outside(self: &Arc<Self>) -> Reader {
        let mut state = self.state();
        let reader = state.streams.get_mut(&OUTSIDE).map_or(0, Stream::attach);
        drop(state);
        Reader::new(self.clone(), OUTSIDE, reader)
    }

    /// Whether an event belonged to no call, so that more may always follow it.
    pub(crate) fn is_outside(event: &str) -> bool {
        event.split_once('-').is_some_and(|(number, _)| number.parse() == Ok(OUTSIDE))
    }

    /// A reader of everything after an event; `None` if that has been lost, or never existed. Events before an
    /// unread answer may be missing: the answer is what matters.
    pub(crate) fn resume(self: &Arc<Self>, last_event: &str) -> Option<Reader> {
        let (number, position) = last_event.split_once('-')?;
        let (number, position): (u64, u64) = (number.parse().ok()?, position.parse().ok()?);
        let mut guard = self.state();
        let state = &mut *guard;
        let missed = state.ring.after(number, position);
        let newest = state.newest(number)?;
        let is_whole = missed.len() as u64 == newest.saturating_sub(position);
        if !is_whole && !state.ring.is_awaited(number) {
            return None;
        }
        // A call that is over has left only what is in the ring.
        let stream =
            state.streams.entry(number).or_insert_with(|| Stream { started: true, ..Stream::default() });
        stream.waiting = missed.into();
        stream.position = newest;
        stream.hang_up = None;
        let reader = stream.attach();
        drop(guard);
        Some(Reader::resumed(self.clone(), number, reader))
    }

    pub(crate) fn outlet(self: &Arc<Self>, reader: &Reader) -> Arc<dyn Outlet> {
        Arc::new(StreamOutlet { streams: self.clone(), number: reader.number })
    }

    pub(crate) fn outside(self: &Arc<Self>) -> Arc<dyn Outlet> {
        Arc::new(StreamOutlet { streams: self.clone(), number: OUTSIDE })
    }

    /// Whether the client has the stream for messages outside of calls open.
    pub(crate) fn is_watched(&self) -> bool {
        self.state().streams.get(&OUTSIDE).is_some_and(|stream| stream.reader.is_some())
    }

    /// Ends all streams.
    pub(crate) fn close(&self) {
        let mut state = self.state();
        state.closed = true;
        for (_, mut stream) in state.streams.drain() {
            stream.wake();
        }
    }

    /// Returns whether the client can read it, now or after it reconnects. Without a weight there is always room.
    fn push(&self, number: u64, message: Rendered, weight: Option<Weight>, is_answer: bool) -> bool {
        let mut guard = self.state();
        let state = &mut *guard;
        // Nothing comes after the last answer.
        let Some(stream) = state.streams.get_mut(&number).filter(|stream| !stream.is_over()) else {
            return false;
        };
        // A session without a reader needs to learn only once that a list has changed.
        if number == OUTSIDE
            && stream.reader.is_none()
            && stream.waiting.iter().any(|item| item.message == message)
        {
            return true;
        }
        let bytes = || stream.waiting.iter().map(|item| item.message.len()).sum();
        if weight.is_some_and(|weight| !weight.fits(stream.waiting.len(), bytes())) {
            Counts::add(&self.counts.dropped);
            return false;
        }
        stream.position += 1;
        let item = Item { position: stream.position, message, is_answer };
        // An answer alone is sent as JSON, which cannot be resumed.
        if self.resumable && (stream.started || !is_answer || stream.position > 1) {
            state.ring.keep(Kept { stream: number, item: item.clone(), awaited: is_answer });
        }
        stream.waiting.push_back(item);
        if is_answer {
            stream.outstanding = stream.outstanding.saturating_sub(1);
        }
        stream.wake();
        state.forget_if_left(number);
        true
    }

    /// A call ended without an answer.
    fn give_up(&self, number: u64) {
        let mut state = self.state();
        let Some(stream) = state.streams.get_mut(&number) else { return };
        stream.outstanding = stream.outstanding.saturating_sub(1);
        stream.wake();
        state.forget_if_left(number);
    }

    fn hang_up(&self, number: u64, come_back_after: Duration) {
        if !self.resumable {
            return;
        }
        if let Some(stream) = self.state().streams.get_mut(&number) {
            stream.started = true;
            stream.hang_up = Some(come_back_after);
            stream.wake();
        }
    }

    fn state(&self) -> MutexGuard<'_, ReplayState> {
        self.state.lock()
    }
}

impl ReplayState {
    /// A stream that is over and has no reader is kept only in the ring.
    fn forget_if_left(&mut self, number: u64) {
        if self.streams.get(&number).is_some_and(|stream| stream.is_over() && stream.reader.is_none()) {
            self.remove(number);
        }
    }

    fn remove(&mut self, number: u64) {
        let Some(stream) = self.streams.remove(&number).filter(|stream| stream.started) else { return };
        self.ended.retain(|(ended, _)| *ended != number);
        self.ended.push_back((number, stream.position));
        if self.ended.len() > MOST_ENDED {
            self.ended.pop_front();
        }
    }

    /// The position of the newest message that a stream has had.
    fn newest(&self, number: u64) -> Option<u64> {
        let ended = || self.ended.iter().find(|(ended, _)| *ended == number).map(|(_, position)| *position);
        self.streams.get(&number).map(|stream| stream.position).or_else(ended)
    }
}

/// Puts the messages of a call on its stream.
struct StreamOutlet {
    streams: Arc<Streams>,
    number: u64,
}

impl Outlet for StreamOutlet {
    fn tell(&self, message: Rendered, weight: Weight) {
        self.streams.push(self.number, message, Some(weight), false);
    }

    fn ask(&self, message: Rendered) -> BoxFuture<bool> {
        let asked = self.streams.push(self.number, message, Some(Weight::Heavy), false);
        Box::pin(std::future::ready(asked))
    }

    fn answer(&self, message: Rendered) -> BoxFuture<()> {
        self.streams.push(self.number, message, None, true);
        Box::pin(std::future::ready(()))
    }

    fn no_answer(&self) {
        self.streams.give_up(self.number);
    }

    fn hang_up(&self, come_back_after: Duration) {
        self.streams.hang_up(self.number, come_back_after);
    }
}

#[cfg(test)]
mod tests;
