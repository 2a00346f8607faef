//! JSON as editors write it: with comments and trailing commas, and as programs write it that cut characters in
//! half. The former become spaces and the latter an unknown character, so that every place in the text stays where
//! it was.

pub fn plain(text: &str) -> String {
    let mut bytes = text.as_bytes().to_vec();
    let mut at = 0;
    let mut comma = None;
    while at < bytes.len() {
        match (bytes[at], bytes.get(at + 1)) {
            (b'"', _) => {
                let end = end_of_string(&bytes, at);
                replace_lone_surrogates(&mut bytes[at..end]);
                at = end;
                comma = None;
            }
            (b'/', Some(b'/')) => {
                let end =
                    bytes[at..].iter().position(|byte| *byte == b'\n').map_or(bytes.len(), |end| at + end);
                blank(&mut bytes[at..end]);
                at = end;
            }
            (b'/', Some(b'*')) => {
                let end = bytes[at + 2..].windows(2).position(|pair| pair == b"*/");
                let end = end.map_or(bytes.len(), |end| at + end + 4);
                blank(&mut bytes[at..end]);
                at = end;
            }
            (b',', _) => {
                comma = Some(at);
                at += 1;
            }
            (b'}' | b']', _) => {
                if let Some(comma) = comma.take() {
                    bytes[comma] = b' ';
                }
                at += 1;
            }
            (byte, _) => {
                if !byte.is_ascii_whitespace() {
                    comma = None;
                }
                at += 1;
            }
        }
    }
    // Only whole comments and commas were replaced, by ASCII.
    String::from_utf8(bytes).unwrap_or_else(|_| text.to_owned())
}

/// After the closing quote.
fn end_of_string(bytes: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while at < bytes.len() && bytes[at] != b'"' {
        at += if bytes[at] == b'\\' { 2 } else { 1 };
    }
    (at + 1).min(bytes.len())
}

/// JavaScript writes and reads `\ud83d` without its other half, which is not a valid character.
fn replace_lone_surrogates(string: &mut [u8]) {
    let mut at = 0;
    while at < string.len() {
        match (half(&string[at..]), half(string.get(at + 6..).unwrap_or_default())) {
            (Some(Half::First), Some(Half::Second)) => at += 12,
            (Some(_), _) => {
                string[at + 2..at + 6].copy_from_slice(b"fffd");
                at += 6;
            }
            (None, _) => at += if string[at] == b'\\' { 2 } else { 1 },
        }
    }
}

enum Half {
    First,
    Second,
}

/// Whether this number is one half of a surrogate pair, and which.
fn half(text: &[u8]) -> Option<Half> {
    let number = text.strip_prefix(b"\\u")?.get(..4)?;
    match u16::from_str_radix(std::str::from_utf8(number).ok()?, 16).ok()? {
        0xd800..=0xdbff => Some(Half::First),
        0xdc00..=0xdfff => Some(Half::Second),
        _ => None,
    }
}

fn blank(bytes: &mut [u8]) {
    bytes.iter_mut().filter(|byte| **byte != b'\n').for_each(|byte| *byte = b' ');
}

#[cfg(test)]
mod tests {
    use super::plain;

    #[test]
    fn comments_and_trailing_commas_go_and_nothing_moves() {
        let check = |text: &str, expected: &str| {
            assert_eq!(plain(text), expected);
            assert_eq!(text.len(), expected.len());
        };
        check("{\"a\": 1, // é\n}", "{\"a\": 1       \n}");
        check("[1, /* x\n, */ ]", "[1      \n     ]");
        check(r#"{"u": "http://x/*no*/", "b": "\"//"}"#, r#"{"u": "http://x/*no*/", "b": "\"//"}"#);
        check("[1,2]", "[1,2]");
        check("[1 /* open", "[1        ");
        check("\"open", "\"open");
        check(r#"["\ud83d", "\uDE00x"]"#, r#"["\ufffd", "\ufffdx"]"#);
        check(r#"["\ud83d\ude00", "\\ud83d", "\u00e9"]"#, r#"["\ud83d\ude00", "\\ud83d", "\u00e9"]"#);
        check(r#"["\ud83d\ud83d\ude00\ud8"#, r#"["\ufffd\ud83d\ude00\ud8"#);
    }
}
