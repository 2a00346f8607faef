//! URI templates of the simple kind: `{name}` matches one part without `/`, `{+name}` matches anything.

/// A URI template, taken apart.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Pattern(Vec<Part>);

#[derive(Clone, Debug, PartialEq)]
enum Part {
    Text(String),
    Variable { name: String, with_slashes: bool },
}

impl Pattern {
    /// Panics on a template that is not closed; the attribute has checked it.
    pub(crate) fn new(template: &str) -> Self {
        let (mut parts, mut rest) = (Vec::new(), template);
        while let Some((text, after)) = rest.split_once('{') {
            let (name, after) =
                after.split_once('}').expect("the attribute checks that every brace is closed");
            if !text.is_empty() {
                parts.push(Part::Text(text.to_owned()));
            }
            let with_slashes = name.starts_with('+');
            parts.push(Part::Variable { name: name.trim_start_matches('+').to_owned(), with_slashes });
            rest = after;
        }
        if !rest.is_empty() {
            parts.push(Part::Text(rest.to_owned()));
        }
        Self(parts)
    }

    pub(crate) fn variables(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter_map(|part| match part {
            Part::Variable { name, .. } => Some(name.as_str()),
            Part::Text(_) => None,
        })
    }

    /// The values of the variables, if `uri` matches.
    pub(crate) fn fit(&self, uri: &str) -> Option<Vec<(String, String)>> {
        fit(&self.0, uri)
    }
}

/// Each variable takes as much as possible, the first one first, so that `{name}.{kind}` splits at the last
/// dot. The possible positions of the rest are computed beforehand, so nothing is tried twice.
fn fit(parts: &[Part], uri: &str) -> Option<Vec<(String, String)>> {
    let rests = rests(parts, uri)?;
    let (mut found, mut at) = (Vec::new(), 0);
    for (part, rest) in parts.iter().zip(&rests) {
        match part {
            Part::Text(text) => at += text.len(),
            Part::Variable { name, with_slashes } => {
                let longest = if *with_slashes { uri.len() } else { end_of_part(uri, at) };
                let end = (at + 1..=longest).rev().find(|end| rest[*end])?;
                found.push((name.clone(), decoded(&uri[at..end])));
                at = end;
            }
        }
    }
    Some(found)
}

fn end_of_part(uri: &str, at: usize) -> usize {
    uri[at..].find('/').map_or(uri.len(), |length| at + length)
}

/// For each part, the positions in `uri` where the parts after it may begin. `None` if the whole does not match.
fn rests(parts: &[Part], uri: &str) -> Option<Vec<Vec<bool>>> {
    let mut rests = Vec::with_capacity(parts.len());
    let mut rest: Vec<bool> = (0..=uri.len()).map(|at| at == uri.len()).collect();
    for part in parts.iter().rev() {
        let from = match part {
            Part::Text(text) => begins_with(text, uri, &rest),
            Part::Variable { with_slashes, .. } => begins_with_variable(*with_slashes, uri, &rest),
        };
        rests.push(std::mem::replace(&mut rest, from));
    }
    rests.reverse();
    rest[0].then_some(rests)
}

fn begins_with(text: &str, uri: &str, rest: &[bool]) -> Vec<bool> {
    let fits = |at: usize| uri.as_bytes()[at..].starts_with(text.as_bytes()) && rest[at + text.len()];
    (0..=uri.len()).map(fits).collect()
}

/// From the end: a variable can begin wherever the rest can begin behind it, with no `/` between.
fn begins_with_variable(with_slashes: bool, uri: &str, rest: &[bool]) -> Vec<bool> {
    let (mut begins, mut can_end) = (vec![false; rest.len()], false);
    for at in (0..uri.len()).rev() {
        can_end = (can_end || rest[at + 1]) && (with_slashes || uri.as_bytes()[at] != b'/');
        begins[at] = can_end && uri.is_char_boundary(at);
    }
    begins
}

/// Percent-decoded; invalid escapes are kept.
fn decoded(text: &str) -> String {
    let (mut bytes, mut rest) = (Vec::with_capacity(text.len()), text.as_bytes());
    while let [first, tail @ ..] = rest {
        let hex = tail.get(..2).filter(|digits| *first == b'%' && digits.iter().all(u8::is_ascii_hexdigit));
        let hex = hex.and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok());
        bytes.push(hex.unwrap_or(*first));
        rest = if hex.is_some() { &tail[2..] } else { tail };
    }
    String::from_utf8(bytes).unwrap_or_else(|_| text.to_owned())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn check(template: &str, uri: &str, expected: Option<&[(&str, &str)]>) {
        let got = Pattern::new(template).fit(uri);
        let expected: Option<Vec<_>> =
            expected.map(|pairs| pairs.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect());
        assert_eq!(got, expected, "{template} {uri}");
    }

    #[test]
    fn a_uri_of_nothing_but_dots_takes_no_longer_than_others() {
        let dots = ".".repeat(100_000);
        check("a://{x}.{y}.json", &format!("a://{dots}"), None);
        check("a://{x}.{y}.{z}", &format!("a://{dots}/"), None);
        let last = ".".repeat(99_998);
        check("a://{x}.{y}", &format!("a://{dots}"), Some(&[("x", &last), ("y", ".")]));
    }

    #[test]
    fn only_two_hexadecimal_digits_are_decoded() {
        check("a://{x}", "a://%+1%2b%zz% 1%2", Some(&[("x", "%+1+%zz% 1%2")]));
    }

    proptest! {
        #[test]
        fn matching_finds_the_same_as_trying_everything(
            template in "a:([./aé]{0,2}\\{\\+?x\\}){1,3}[./a]{0,2}",
            uri in "(a:)?[./aé]{0,9}",
        ) {
            let pattern = Pattern::new(&template);
            assert_eq!(pattern.fit(&uri), try_everything(&pattern.0, &uri), "{template} {uri}");
        }
    }

    fn try_everything(parts: &[Part], uri: &str) -> Option<Vec<(String, String)>> {
        match parts {
            [] => uri.is_empty().then(Vec::new),
            [Part::Text(text), rest @ ..] => try_everything(rest, uri.strip_prefix(text.as_str())?),
            [Part::Variable { name, with_slashes }, rest @ ..] => {
                let longest = if *with_slashes { uri.len() } else { uri.find('/').unwrap_or(uri.len()) };
                (1..=longest).rev().filter(|at| uri.is_char_boundary(*at)).find_map(|at| {
                    let mut found = try_everything(rest, &uri[at..])?;
                    found.insert(0, (name.clone(), decoded(&uri[..at])));
                    Some(found)
                })
            }
        }
    }

    #[test]
    fn a_uri_gives_the_values_of_its_variables() {
        check("notes://{id}", "notes://7", Some(&[("id", "7")]));
        check("notes://{id}", "notes://", None);
        check("notes://{id}", "notes://a/b", None);
        check("file:///{+path}", "file:///a/b.txt", Some(&[("path", "a/b.txt")]));
        check("a://{x}/{y}.json", "a://1/b.c.json", Some(&[("x", "1"), ("y", "b.c")]));
        check("a://{x}", "a://%C3%A9%", Some(&[("x", "é%")]));
    }
}
