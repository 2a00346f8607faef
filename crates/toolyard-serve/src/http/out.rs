//! Bytes on their way to a client: small pieces are gathered, a big one is written as it is.

use std::io::{Error, ErrorKind, IoSlice, Result};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, Bytes};
use tokio::io::AsyncWrite;

/// Below this, copying is cheaper than another buffer; and no more is gathered than this and one piece.
const GATHERED: usize = 16 * 1024;

#[derive(Default)]
pub(super) struct Out {
    small: Vec<u8>,
    /// How much of `small` has been written.
    gone: usize,
    big: Bytes,
    /// What follows `big`.
    tail: &'static [u8],
}

impl Out {
    /// Where small pieces are written to. Not while a big one waits: see [`Out::is_full`].
    pub(super) fn small(&mut self) -> &mut Vec<u8> {
        debug_assert!(self.big.is_empty(), "what is small would overtake it");
        &mut self.small
    }

    pub(super) fn put(&mut self, data: Bytes, tail: &'static [u8]) {
        debug_assert!(self.big.is_empty(), "one big piece at a time");
        if data.len() < GATHERED {
            self.small.extend_from_slice(&data);
            self.small.extend_from_slice(tail);
        } else {
            (self.big, self.tail) = (data, tail);
        }
    }

    /// Whether this must be written before anything else is put.
    pub(super) fn is_full(&self) -> bool {
        !self.big.is_empty() || self.small.len() >= GATHERED
    }

    /// Whether something is still to be written.
    fn is_waiting(&self) -> bool {
        self.gone < self.small.len() || !self.big.is_empty()
    }

    pub(super) fn poll_flush(
        &mut self,
        mut stream: impl AsyncWrite + Unpin,
        cx: &mut Context<'_>,
    ) -> Poll<Result<()>> {
        while self.is_waiting() {
            let small = &self.small[self.gone..];
            let count = if self.big.is_empty() {
                ready!(Pin::new(&mut stream).poll_write(cx, small))?
            } else {
                let both = [IoSlice::new(small), IoSlice::new(&self.big)];
                ready!(Pin::new(&mut stream).poll_write_vectored(cx, &both))?
            };
            if count == 0 {
                return Poll::Ready(Err(Error::from(ErrorKind::WriteZero)));
            }
            let of_small = count.min(small.len());
            self.gone += of_small;
            self.big.advance(count - of_small);
            if self.big.is_empty() && !self.tail.is_empty() {
                self.small.extend_from_slice(std::mem::take(&mut self.tail));
            }
        }
        self.small.clear();
        self.gone = 0;
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tokio::io::AsyncReadExt;

    use super::*;

    proptest! {
        /// However little the stream takes at once, what comes out is what was put.
        #[test]
        fn nothing_is_lost_and_nothing_is_duplicated(
            pieces in prop::collection::vec((0..40_000_usize, any::<u8>(), any::<bool>()), 0..8),
            width in 1..50_000_usize,
        ) {
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            let (mut near, mut far) = tokio::io::duplex(width);
            let expected: Vec<u8> = pieces
                .iter()
                .flat_map(|&(length, byte, tail)| {
                    std::iter::once(b'<').chain(std::iter::repeat_n(byte, length)).chain(tail.then_some(b'>'))
                })
                .collect();
            let writing = async move {
                let mut out = Out::default();
                for (length, byte, tail) in pieces {
                    if out.is_full() {
                        std::future::poll_fn(|cx| out.poll_flush(&mut near, cx)).await.unwrap();
                    }
                    out.small().push(b'<');
                    out.put(vec![byte; length].into(), if tail { b">" } else { b"" });
                }
                std::future::poll_fn(|cx| out.poll_flush(&mut near, cx)).await.unwrap();
            };
            let mut got = Vec::new();
            runtime.block_on(async { tokio::join!(writing, far.read_to_end(&mut got)) }).1.unwrap();
            prop_assert_eq!(got, expected);
        }
    }
}
