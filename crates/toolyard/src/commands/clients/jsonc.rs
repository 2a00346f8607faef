//! JSON as editors write it: with comments and trailing commas. They become spaces, so that every place in
//! the text stays where it was.

pub(in crate::commands) fn plain(text: &str) -> String {
    let mut bytes = text.as_bytes().to_vec();
    let mut at = 0;
    let mut comma = None;
    while at < bytes.len() {
        match (bytes[at], bytes.get(at + 1)) {
            (b'"', _) => {
                at = end_of_string(&bytes, at);
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
    }
}
