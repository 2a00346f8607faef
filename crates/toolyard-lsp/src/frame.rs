//! Messages on a byte stream: a header with the length, an empty line, then JSON.

use serde_json::Value;
use tokio::io::{AsyncBufRead, AsyncBufReadExt as _, AsyncReadExt as _};

/// A message above this size ends the connection.
const MAX_MESSAGE: usize = 64 * 1024 * 1024;
/// Output that is not part of the protocol, such as a log line, is skipped up to this size.
const MAX_NOISE: usize = 64 * 1024;

/// Why no message could be read.
#[derive(Debug, thiserror::Error)]
pub enum FrameError {
    #[error("cannot read from the server: {0}")]
    Read(#[from] std::io::Error),
    #[error("the server sent {0} bytes that are not part of the protocol")]
    Noise(usize),
    #[error("the server sent a message of {0} bytes; at most {MAX_MESSAGE} are read")]
    TooLarge(usize),
    #[error("the server sent invalid JSON: {0}")]
    Json(#[from] serde_json::Error),
}

/// The next message; nothing at the end of the stream.
pub(crate) async fn read<R: AsyncBufRead + Unpin>(from: &mut R) -> Result<Option<Value>, FrameError> {
    let Some(length) = header(from).await? else { return Ok(None) };
    if length > MAX_MESSAGE {
        return Err(FrameError::TooLarge(length));
    }
    let mut body = vec![0; length];
    from.read_exact(&mut body).await?;
    Ok(Some(serde_json::from_slice(&body)?))
}

/// The length of the next message. Lines before the header are skipped: some servers print to the same stream.
async fn header<R: AsyncBufRead + Unpin>(from: &mut R) -> Result<Option<usize>, FrameError> {
    let (mut length, mut noise) = (None, 0);
    let mut line = Vec::new();
    loop {
        line.clear();
        let mut limited = (&mut *from).take(MAX_NOISE as u64 + 1);
        if limited.read_until(b'\n', &mut line).await? == 0 {
            return Ok(None);
        }
        let text = String::from_utf8_lossy(&line);
        match (text.trim(), length) {
            ("", Some(length)) => return Ok(Some(length)),
            (field, known) => match content_length(field) {
                Some(found) => length = Some(found),
                None if known.is_some() && field.contains(':') => {}
                None => noise += line.len(),
            },
        }
        if noise > MAX_NOISE {
            return Err(FrameError::Noise(noise));
        }
    }
}

fn content_length(field: &str) -> Option<usize> {
    // A log line without a line break at its end can precede the header.
    let at = field.to_ascii_lowercase().rfind("content-length:")?;
    field[at + "content-length:".len()..].trim().parse().ok()
}

/// A message with its header.
pub(crate) fn write(message: &Value) -> Vec<u8> {
    let body = message.to_string();
    let mut frame = format!("Content-Length: {}\r\n\r\n", body.len()).into_bytes();
    frame.extend_from_slice(body.as_bytes());
    frame
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    async fn all(mut bytes: &[u8]) -> Result<Vec<Value>, FrameError> {
        let mut messages = Vec::new();
        while let Some(message) = read(&mut bytes).await? {
            messages.push(message);
        }
        Ok(messages)
    }

    #[tokio::test]
    async fn written_messages_are_read_back() {
        let (one, two) = (json!({ "id": 1, "text": "naïve 🦀" }), json!([]));
        let bytes = [write(&one), write(&two)].concat();
        assert_eq!(all(&bytes).await.unwrap(), [one, two]);
    }

    #[tokio::test]
    async fn log_lines_between_messages_are_skipped() {
        let mut bytes = b"starting up\n\nready: ".to_vec();
        bytes.extend(write(&json!(1)));
        bytes.extend(b"warning: something\r\n");
        bytes.extend(b"content-type: x\r\nContent-Length: 1\r\nContent-Type: y\r\n\r\n2");
        assert_eq!(all(&bytes).await.unwrap(), [json!(1), json!(2)]);
    }

    #[tokio::test]
    async fn endless_noise_and_oversized_messages_are_errors() {
        assert!(matches!(all(&vec![b'x'; MAX_NOISE * 2]).await, Err(FrameError::Noise(_))));
        let huge = format!("Content-Length: {}\r\n\r\n", MAX_MESSAGE + 1);
        assert!(matches!(all(huge.as_bytes()).await, Err(FrameError::TooLarge(_))));
        assert!(matches!(all(b"Content-Length: 3\r\n\r\n{{{").await, Err(FrameError::Json(_))));
        assert!(matches!(all(b"Content-Length: 9\r\n\r\n{").await, Err(FrameError::Read(_))));
    }
}
