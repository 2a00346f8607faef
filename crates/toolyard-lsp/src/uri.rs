//! Paths as `file` URIs and back.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// The URI of an absolute path. Bytes that are not plain are percent-encoded.
pub fn uri_of(path: &Path) -> String {
    let mut uri = "file://".to_owned();
    for byte in path.as_os_str().as_encoded_bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' | b'/' => {
                uri.push(char::from(*byte));
            }
            _ => {
                let _ = write!(uri, "%{byte:02X}");
            }
        }
    }
    uri
}

/// The path of a `file` URI of this machine. Servers differ in what they encode, so URIs are compared as paths.
pub fn path_of(uri: &str) -> Option<PathBuf> {
    let path = uri.strip_prefix("file://")?;
    let path = path.strip_prefix("localhost").unwrap_or(path);
    if !path.starts_with('/') {
        return None;
    }
    let mut bytes = Vec::with_capacity(path.len());
    let mut rest = path.as_bytes();
    while let [first, tail @ ..] = rest {
        let code = tail.get(..2).and_then(|hex| std::str::from_utf8(hex).ok());
        let code = code.and_then(|hex| u8::from_str_radix(hex, 16).ok());
        if let (b'%', Some(byte)) = (first, code) {
            bytes.push(byte);
            rest = &tail[2..];
        } else {
            bytes.push(*first);
            rest = tail;
        }
    }
    String::from_utf8(bytes).ok().map(PathBuf::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_survives_the_way_through_a_uri() {
        for path in ["/a/b.rs", "/with space/ü?#%20.py", "/@types/[id].ts"] {
            assert_eq!(path_of(&uri_of(Path::new(path))), Some(PathBuf::from(path)), "{path}");
        }
        assert_eq!(path_of("file:///a%3Ab"), path_of("file:///a:b"));
        assert_eq!(path_of("file://localhost/a"), Some("/a".into()));
        assert_eq!(path_of("untitled:1"), None);
    }
}
