//! Byte streams through NATS, for nodes that cannot connect to each other.
//!
//! A stream is cut into messages, and a side sends no more than the other has given it credit for: NATS has no
//! back-pressure, and drops what a slow subscriber does not take. NATS does not repeat what is lost either, so each
//! message carries its place in the stream, and a gap ends the stream. TLS runs inside, so NATS sees nothing of it.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_nats::client::RequestErrorKind;
use async_nats::{Client, Message, Subject, Subscriber};
use bytes::{BufMut as _, Bytes, BytesMut};
use data_encoding::HEXLOWER;
use futures_util::{Stream, StreamExt as _};
use ring::digest::{SHA256, digest};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, ReadHalf, WriteHalf};
use tokio::sync::Semaphore;
use tokio::time::{interval, timeout};
use toolyard_model::{Keys, Scope};

/// The largest piece of a stream in one message. Servers allow 1 MB by default.
const CHUNK: usize = 64 * 1024;
/// How much a side may send before the other has taken it.
const CREDIT: usize = 8 * CHUNK;
/// How long the other side may take to accept a stream.
const OPEN: Duration = Duration::from_secs(5);
/// How often each side shows that it is there, and how long the other waits for that.
const BEAT: Duration = Duration::from_secs(4);
const SILENCE: Duration = Duration::from_secs(15);
/// How long a side that has ended its half waits for the other half.
const LINGER: Duration = Duration::from_secs(10);
/// How many streams from other nodes may be open at once.
const MOST_ACCEPTED: usize = 256;

const DATA: u8 = 0;
const STATE: u8 = 1;
const END: u8 = 2;

/// Opens streams to other nodes, and accepts theirs.
#[derive(Clone)]
pub(crate) struct Tunnels {
    client: Client,
    prefix: Arc<str>,
    keys: Arc<Keys>,
    scope: Scope,
}

impl Tunnels {
    pub(crate) fn new(client: Client, prefix: &str, keys: Arc<Keys>, scope: Scope) -> Self {
        Self { client, prefix: prefix.into(), keys, scope }
    }

    /// Where the process with this public key accepts streams.
    fn door(&self, key: &[u8]) -> String {
        format!("{}.node.{}", self.prefix, HEXLOWER.encode(&digest(&SHA256, key).as_ref()[..16]))
    }

    fn new_subject(&self) -> String {
        format!("{}.stream.{}{}", self.prefix, crate::new_epoch(), crate::new_epoch())
    }

    /// A stream to the process with this public key.
    pub(crate) async fn open(&self, key: &[u8]) -> io::Result<DuplexStream> {
        let (door, back) = (self.door(key), self.new_subject());
        let incoming = self.client.subscribe(back.clone()).await.map_err(io::Error::other)?;
        let request = self.keys.seal(&purpose(&door), back.as_bytes());
        let asked = timeout(OPEN, self.client.request(door, Bytes::from(request))).await?;
        let answer = asked.map_err(|error| match error.kind() {
            RequestErrorKind::NoResponders => io::Error::new(io::ErrorKind::ConnectionRefused, error),
            _ => io::Error::other(error),
        })?;
        let to = self
            .subject(&back, &answer.payload)
            .ok_or_else(|| io::Error::other("the answer is not sealed with the cluster's key"))?;
        Ok(self.begin(incoming, to))
    }

    /// Accepts streams as the process with this public key, until the scope ends.
    pub(crate) async fn accept(self, key: &[u8], serve: impl Fn(DuplexStream)) {
        let door = self.door(key);
        let room = Arc::new(Semaphore::new(MOST_ACCEPTED));
        loop {
            let Ok(mut requests) = self.client.subscribe(door.clone()).await else {
                tokio::time::sleep(BEAT).await;
                continue;
            };
            while let Some(request) = requests.next().await {
                let Ok(permit) = room.clone().try_acquire_owned() else {
                    tracing::warn!(target: "cluster", "refused a stream through NATS: there are {MOST_ACCEPTED} already");
                    continue;
                };
                match self.answer(&door, request).await {
                    Ok(mut stream) => {
                        stream.permit = Some(permit);
                        serve(stream.begin(&self.scope));
                    }
                    Err(error) => {
                        tracing::debug!(target: "cluster", %error, "refused a stream through NATS");
                    }
                }
            }
        }
    }

    async fn answer(&self, door: &str, request: Message) -> io::Result<Pump> {
        let to = self
            .subject(door, &request.payload)
            .ok_or_else(|| io::Error::other("it is not sealed with the cluster's key"))?;
        let reply = request.reply.ok_or_else(|| io::Error::other("it has no reply subject"))?;
        let back = self.new_subject();
        let incoming = self.client.subscribe(back.clone()).await.map_err(io::Error::other)?;
        let answer = self.keys.seal(&purpose(&to), back.as_bytes());
        self.client.publish(reply, Bytes::from(answer)).await.map_err(io::Error::other)?;
        Ok(Pump { client: self.client.clone(), incoming, to, permit: None })
    }

    fn subject(&self, sealed_for: &str, sealed: &[u8]) -> Option<Subject> {
        let subject = self.keys.open(&purpose(sealed_for), std::str::from_utf8(sealed).ok()?)?;
        Some(Subject::from(String::from_utf8(subject).ok()?))
    }

    fn begin(&self, incoming: Subscriber, to: Subject) -> DuplexStream {
        Pump { client: self.client.clone(), incoming, to, permit: None }.begin(&self.scope)
    }
}

fn purpose(subject: &str) -> String {
    format!("cluster stream at {subject}")
}

/// Carries one stream.
struct Pump {
    client: Client,
    incoming: Subscriber,
    to: Subject,
    permit: Option<tokio::sync::OwnedSemaphorePermit>,
}

/// Where the messages of one side go.
trait Outgoing {
    /// Whether it could be sent.
    fn send(&self, frame: Bytes) -> impl Future<Output = bool> + Send;
}

struct ToNode {
    client: Client,
    to: Subject,
}

impl Outgoing for ToNode {
    async fn send(&self, frame: Bytes) -> bool {
        self.client.publish(self.to.clone(), frame).await.is_ok()
    }
}

/// What both directions of a stream know of each other.
struct Counts {
    /// What this side has sent, and what it may send in all.
    sent: AtomicU64,
    allowed: AtomicU64,
    credit: Semaphore,
    /// What this side has taken from the other.
    taken: AtomicU64,
}

impl Pump {
    fn begin(self, scope: &Scope) -> DuplexStream {
        let (near, far) = tokio::io::duplex(CHUNK);
        let Self { client, incoming, to, permit } = self;
        scope.spawn(async move {
            let _permit = permit;
            carry(far, incoming.map(|message| message.payload), &ToNode { client, to }).await;
        });
        near
    }
}

/// Carries a stream in messages until it has ended or is broken.
async fn carry(stream: DuplexStream, incoming: impl Stream<Item = Bytes> + Unpin, outgoing: &impl Outgoing) {
    let (read, write) = tokio::io::split(stream);
    let counts = Counts {
        sent: AtomicU64::new(0),
        allowed: AtomicU64::new(CREDIT as u64),
        credit: Semaphore::new(CREDIT),
        taken: AtomicU64::new(0),
    };
    let receiving = receive(outgoing, incoming, write, &counts);
    let sending = send(outgoing, read, &counts);
    tokio::pin!(receiving, sending);
    tokio::select! {
        // Dropping the other half of the stream ends it for its user, too.
        () = &mut receiving => {}
        () = &mut sending => drop(timeout(LINGER, receiving).await),
        () = beat(outgoing, &counts) => {}
    }
    outgoing.send(frame(END, &[counts.sent.load(Ordering::Relaxed)], &[])).await;
}

/// Reads from the stream and sends, as far as there is credit.
async fn send(outgoing: &impl Outgoing, mut read: ReadHalf<DuplexStream>, counts: &Counts) {
    let mut buffer = vec![0; CHUNK];
    while let Ok(length @ 1..) = read.read(&mut buffer).await {
        let Ok(wanted) = u32::try_from(length) else { break };
        let Ok(credit) = counts.credit.acquire_many(wanted).await else { return };
        credit.forget();
        let place = counts.sent.load(Ordering::Relaxed);
        if !outgoing.send(frame(DATA, &[place], &buffer[..length])).await {
            return;
        }
        counts.sent.store(place + u64::from(wanted), Ordering::Relaxed);
    }
    outgoing.send(frame(END, &[counts.sent.load(Ordering::Relaxed)], &[])).await;
}

/// Shows the other side again and again that this one is there, also while the user of the stream does not read.
async fn beat(outgoing: &impl Outgoing, counts: &Counts) {
    let mut beat = interval(BEAT);
    loop {
        beat.tick().await;
        if !show(outgoing, counts).await {
            return;
        }
    }
}

/// Receives, writes to the stream and gives credit for what was written. Ends with the stream, or when it is broken.
/// The other side is silent only if nothing is there to be taken: what arrives while the user of the stream does not
/// read waits in `incoming`.
async fn receive(
    outgoing: &impl Outgoing,
    mut incoming: impl Stream<Item = Bytes> + Unpin,
    mut write: WriteHalf<DuplexStream>,
    counts: &Counts,
) {
    let mut shown = 0;
    while let Ok(Some(message)) = timeout(SILENCE, incoming.next()).await {
        match Frame::read(message) {
            Some(Frame::Data(place, data)) if place == counts.taken.load(Ordering::Relaxed) => {
                if write.write_all(&data).await.is_err() {
                    return;
                }
                let taken = place + data.len() as u64;
                counts.taken.store(taken, Ordering::Relaxed);
                if taken - shown >= (CREDIT / 4) as u64 {
                    shown = taken;
                    if !show(outgoing, counts).await {
                        return;
                    }
                }
            }
            Some(Frame::State { sent, allowed }) if sent <= counts.taken.load(Ordering::Relaxed) => {
                counts.allow(allowed);
            }
            Some(Frame::End(sent)) if sent == counts.taken.load(Ordering::Relaxed) => {
                let _ = write.shutdown().await;
                return;
            }
            Some(_) | None => {
                tracing::debug!(target: "cluster", "a stream through NATS is broken: a message was lost");
                return;
            }
        }
    }
}

impl Counts {
    /// The other side allows so much in all.
    fn allow(&self, allowed: u64) {
        let before = self.allowed.fetch_max(allowed, Ordering::Relaxed);
        let more = usize::try_from(allowed.saturating_sub(before)).unwrap_or(0);
        self.credit.add_permits(more.min(CREDIT));
    }
}

/// Shows the other side what was sent to it and what it may send. Repeated, so that a lost one does no harm.
async fn show(outgoing: &impl Outgoing, counts: &Counts) -> bool {
    let sent = counts.sent.load(Ordering::Relaxed);
    let allowed = counts.taken.load(Ordering::Relaxed) + CREDIT as u64;
    outgoing.send(frame(STATE, &[sent, allowed], &[])).await
}

/// A message of a stream.
enum Frame {
    /// A piece, and how much came before it.
    Data(u64, Bytes),
    /// How much the sender has sent, and how much it takes.
    State { sent: u64, allowed: u64 },
    /// Nothing follows after so much.
    End(u64),
}

impl Frame {
    fn read(mut payload: Bytes) -> Option<Self> {
        let kind = *payload.first()?;
        let head = if kind == STATE { 17 } else { 9 };
        if payload.len() < head {
            return None;
        }
        let rest = payload.split_off(head);
        let number = |at: usize| payload[at..at + 8].try_into().map(u64::from_be_bytes).ok();
        Some(match kind {
            DATA => Self::Data(number(1)?, rest),
            STATE => Self::State { sent: number(1)?, allowed: number(9)? },
            END => Self::End(number(1)?),
            _ => return None,
        })
    }
}

fn frame(kind: u8, numbers: &[u64], data: &[u8]) -> Bytes {
    let mut frame = BytesMut::with_capacity(1 + 8 * numbers.len() + data.len());
    frame.put_u8(kind);
    for number in numbers {
        frame.put_u64(*number);
    }
    frame.put_slice(data);
    frame.freeze()
}

#[cfg(test)]
mod tests {
    use futures_util::stream::unfold;
    use tokio::sync::mpsc;

    use super::*;

    #[test]
    fn a_frame_is_read_as_it_was_written() {
        assert!(
            matches!(Frame::read(frame(DATA, &[7], b"abc")), Some(Frame::Data(7, data)) if *data == *b"abc")
        );
        let state = Frame::read(frame(STATE, &[7, 9], &[]));
        assert!(matches!(state, Some(Frame::State { sent: 7, allowed: 9 })));
        assert!(matches!(Frame::read(frame(END, &[7], &[])), Some(Frame::End(7))));
        for broken in [&[][..], &[DATA], &[STATE, 0, 0, 0, 0, 0, 0, 0, 0], &[9; 20]] {
            assert!(Frame::read(Bytes::copy_from_slice(broken)).is_none(), "{broken:?}");
        }
    }

    #[test]
    fn credit_is_given_once_however_often_it_is_shown() {
        let counts = Counts {
            sent: AtomicU64::new(0),
            allowed: AtomicU64::new(10),
            credit: Semaphore::new(10),
            taken: AtomicU64::new(0),
        };
        for allowed in [15, 15, 12] {
            counts.allow(allowed);
        }
        assert_eq!(counts.credit.available_permits(), 15);
    }

    struct ToPeer(mpsc::UnboundedSender<Bytes>);

    impl Outgoing for ToPeer {
        async fn send(&self, frame: Bytes) -> bool {
            self.0.send(frame).is_ok()
        }
    }

    fn incoming(receiver: mpsc::UnboundedReceiver<Bytes>) -> impl Stream<Item = Bytes> + Unpin {
        Box::pin(unfold(receiver, async |mut receiver| Some((receiver.recv().await?, receiver))))
    }

    /// Both ends of a stream that is carried in messages.
    fn pair() -> (DuplexStream, DuplexStream) {
        let ((to_b, from_a), (to_a, from_b)) = (mpsc::unbounded_channel(), mpsc::unbounded_channel());
        let [a, b] = [(to_b, from_b), (to_a, from_a)].map(|(to, from)| {
            let (near, far) = tokio::io::duplex(CHUNK);
            Scope::new().spawn(async move { carry(far, incoming(from), &ToPeer(to)).await });
            near
        });
        (a, b)
    }

    #[tokio::test(start_paused = true)]
    async fn a_stream_whose_reader_pauses_for_a_minute_is_not_cut() {
        let (mut a, mut b) = pair();
        let sent: Vec<u8> = (0..=250).cycle().take(CREDIT + 3 * CHUNK).collect();
        let mut taken = vec![0; sent.len()];
        let reading = async {
            tokio::time::sleep(Duration::from_mins(1)).await;
            b.read_exact(&mut taken).await
        };
        let (written, read) = tokio::join!(a.write_all(&sent), reading);
        assert!(written.is_ok() && read.is_ok(), "{written:?}, {read:?}");
        assert!(taken == sent);
        // The other direction, and the end, still work.
        b.write_all(b"answer").await.unwrap();
        let mut answer = [0; 6];
        a.read_exact(&mut answer).await.unwrap();
        assert_eq!(&answer, b"answer");
        drop(a);
        assert_eq!(b.read(&mut taken).await.unwrap(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_stream_whose_other_side_is_silent_ends() {
        let (_to, from) = mpsc::unbounded_channel();
        let (to, _sent) = mpsc::unbounded_channel();
        let (mut near, far) = tokio::io::duplex(CHUNK);
        let start = tokio::time::Instant::now();
        carry(far, incoming(from), &ToPeer(to)).await;
        assert_eq!(start.elapsed().as_secs(), SILENCE.as_secs());
        assert_eq!(near.read(&mut [0]).await.unwrap(), 0);
    }
}
