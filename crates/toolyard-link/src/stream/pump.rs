//! The tasks of a stream: one reads lines, one writes them, one queues messages whose senders must not wait.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::mpsc;
use toolyard_proto::codec::MAX_MESSAGE;
use toolyard_proto::codec::line::LineDecoder;
use toolyard_proto::{Message, RequestMessage};

use super::incoming;
use super::mux::{Ending, ExplainEnd, MuxShared};

/// The minimum size of one read.
const CHUNK: usize = 16 * 1024;
/// The maximum number of messages in one write.
const BATCH: usize = 32;
/// A write buffer that grew beyond this is written at once and not kept.
const KEPT_BUFFER: usize = 1024 * 1024;

/// A message for the upstream. A request is rendered when it is written: one that waits because the upstream does not
/// read holds no copy of its parameters.
pub(crate) enum Outgoing {
    Line(Bytes),
    Request(RequestMessage),
}

/// Reads until the stream ends, then fails the calls under way and reports the end.
pub(crate) async fn read<R: AsyncRead + Unpin>(
    shared: Arc<MuxShared>,
    reader: R,
    explain_end: Option<ExplainEnd>,
) {
    let fallen = FailCalls(shared.clone());
    let ending = tokio::select! {
        what = read_lines(&shared, reader) => Ending { what, stderr: None },
        () = shared.closing.cancelled() => "closed its input".into(),
    };
    let ending = match (shared.over(), explain_end) {
        (Some(known), _) => known,
        (None, Some(explain_end)) => explain_end(ending).await,
        (None, None) => ending,
    };
    shared.end_calls(&ending);
    shared.closing.cancel();
    drop(fallen);
    shared.events.closed(ending.reason(&shared.name)).await;
    shared.mark_ended();
}

/// Fails the calls when the reader ends, even if it is dropped with its scope.
struct FailCalls(Arc<MuxShared>);

impl Drop for FailCalls {
    fn drop(&mut self) {
        self.0.end_calls(&"was closed because the gateway is stopping".into());
    }
}

async fn read_lines<R: AsyncRead + Unpin>(shared: &Arc<MuxShared>, mut reader: R) -> String {
    let mut lines = LineDecoder::new(MAX_MESSAGE);
    loop {
        match lines.next_line() {
            Ok(Some(line)) => incoming::take(shared, &line),
            Ok(None) => {
                lines.buffer().reserve(CHUNK);
                match reader.read_buf(lines.buffer()).await {
                    Ok(0) => return "closed the connection".to_owned(),
                    Ok(_) => {}
                    Err(error) => return format!("cannot be read from: {error}"),
                }
            }
            Err(error) => return format!("violated the protocol: {error}"),
        }
    }
}

/// Writes the messages of the outbox until the link closes or the upstream no longer reads. Then the writer is dropped,
/// which closes the upstream's input.
pub(crate) async fn write<W: AsyncWrite + Unpin>(
    shared: Arc<MuxShared>,
    mut writer: W,
    mut outbox: mpsc::Receiver<Outgoing>,
) {
    tokio::select! {
        () = write_lines(&mut writer, &mut outbox) => shared.closing.cancel(),
        () = shared.closing.cancelled() => {}
    }
}

async fn write_lines<W: AsyncWrite + Unpin>(writer: &mut W, outbox: &mut mpsc::Receiver<Outgoing>) {
    let mut batch = Vec::with_capacity(BATCH);
    let mut buffer = BytesMut::new();
    while outbox.recv_many(&mut batch, BATCH).await > 0 {
        for message in batch.drain(..) {
            match message {
                Outgoing::Line(line) => put_line(&mut buffer, &line),
                Outgoing::Request(request) => put_line(&mut buffer, &Message::Request(request).render()),
            }
            if buffer.len() > KEPT_BUFFER {
                if writer.write_all(&buffer).await.is_err() {
                    return;
                }
                buffer.clear();
            }
        }
        if writer.write_all(&buffer).await.is_err() || writer.flush().await.is_err() {
            return;
        }
        buffer.clear();
        if buffer.capacity() > KEPT_BUFFER {
            buffer = BytesMut::new();
        }
    }
}

/// Appends a message as one line. Line breaks in it are replaced by spaces: they can only be white space between
/// tokens, because JSON strings contain none.
fn put_line(buffer: &mut BytesMut, message: &[u8]) {
    let start = buffer.len();
    buffer.extend_from_slice(message);
    if message.contains(&b'\n') || message.contains(&b'\r') {
        for byte in &mut buffer[start..] {
            if matches!(*byte, b'\n' | b'\r') {
                *byte = b' ';
            }
        }
    }
    buffer.extend_from_slice(b"\n");
}

/// Moves cancels and notifications, whose senders cannot wait, into the outbox.
pub(crate) async fn forward(mut waiting: mpsc::Receiver<Bytes>, outbox: mpsc::Sender<Outgoing>) {
    while let Some(line) = waiting.recv().await {
        if outbox.send(Outgoing::Line(line)).await.is_err() {
            return;
        }
    }
}
