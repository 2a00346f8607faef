//! Makes equal what differs between any two runs of a server. Nothing else may be hidden here.

/// Random ids have at least this length: 128 bits in hexadecimal digits.
const RANDOM: usize = 32;

/// Hides what follows one of `unsteady`, up to the end of that string, and random ids.
pub(crate) fn mask(unsteady: &[&str], text: &str) -> String {
    let text = unsteady.iter().fold(text.to_owned(), |text, before| without_rest(&text, before));
    without_random_ids(&text)
}

fn without_rest(text: &str, before: &str) -> String {
    let mut pieces = text.split(before);
    let mut out = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let end = piece.find(['"', '\\']).unwrap_or(piece.len());
        out.extend([before, "<unsteady>", &piece[end..]]);
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
