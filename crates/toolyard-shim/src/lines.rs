//! Reads and writes lines on any stream of bytes.

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use toolyard_proto::codec::TooLarge;
use toolyard_proto::codec::line::LineDecoder;

/// The next complete line; `None` at the end. An incomplete line of a writer that died is dropped.
pub(crate) async fn next_line(
    decoder: &mut LineDecoder,
    read: &mut (impl AsyncRead + Unpin),
) -> Result<Option<Bytes>, TooLarge> {
    loop {
        if let Some(line) = decoder.next_line()? {
            return Ok(Some(line));
        }
        decoder.buffer().reserve(8 * 1024);
        if !matches!(read.read_buf(decoder.buffer()).await, Ok(1..)) {
            return Ok(None);
        }
    }
}

pub(crate) async fn write_lines(
    write: &mut (impl AsyncWrite + Unpin),
    lines: impl IntoIterator<Item = Bytes>,
) -> std::io::Result<()> {
    for line in lines {
        write.write_all(&line).await?;
        write.write_all(b"\n").await?;
    }
    write.flush().await
}
