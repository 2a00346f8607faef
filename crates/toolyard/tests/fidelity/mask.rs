//! What no two runs of a server have in common, made the same. Nothing else may be hidden here.

/// What follows one of these, up to the next quote, is a time.
const TIMES: [&str; 6] = [
    // Tasks, in both eras.
    r#""createdAt":""#,
    r#""lastUpdatedAt":""#,
    // The dynamic resources of server-everything: `… created at 10:20:30 AM`,
    "This is a plaintext resource created at ",
    // and the same within a blob, in base64 (the words before it fill whole groups of three bytes).
    "UmVzb3VyY2UgMTogVGhpcyBpcyBhIGJhc2U2NCBibG9iIGNyZWF0ZWQgYXQg",
    "UmVzb3VyY2UgMjogVGhpcyBpcyBhIGJhc2U2NCBibG9iIGNyZWF0ZWQgYXQg",
    "UmVzb3VyY2UgMzogVGhpcyBpcyBhIGJhc2U2NCBibG9iIGNyZWF0ZWQgYXQg",
];

/// Ids that are drawn by lot are at least this long: 128 bits in hexadecimal digits.
const RANDOM: usize = 32;

pub(crate) fn mask(text: &str) -> String {
    let text = TIMES.iter().fold(text.to_owned(), |text, before| without_time(&text, before));
    without_random_ids(&text)
}

fn without_time(text: &str, before: &str) -> String {
    let mut pieces = text.split(before);
    let mut out = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let end = piece.find(['"', '\\']).unwrap_or(piece.len());
        out.extend([before, "<time>", &piece[end..]]);
    }
    out
}

/// Sessions and tasks of server-everything have UUIDs or 32 digits.
fn without_random_ids(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find(is_digit) {
        out.push_str(&rest[..start]);
        let end = rest[start..].find(|c| !is_digit(c)).map_or(rest.len(), |end| start + end);
        out.push_str(if end - start >= RANDOM { "<random>" } else { &rest[start..end] });
        rest = &rest[end..];
    }
    out.push_str(rest);
    out
}

fn is_digit(c: char) -> bool {
    matches!(c, '0'..='9' | 'a'..='f' | '-')
}
