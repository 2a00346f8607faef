//! URI templates of the simple kind: `{name}` stands for one part without `/`, `{+name}` for anything.

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

    /// The values of the variables, if `uri` fits.
    pub(crate) fn fit(&self, uri: &str) -> Option<Vec<(String, String)>> {
        fit(&self.0, uri)
    }
}

fn fit(parts: &[Part], uri: &str) -> Option<Vec<(String, String)>> {
    match parts {
        [] => uri.is_empty().then(Vec::new),
        [Part::Text(text), rest @ ..] => fit(rest, uri.strip_prefix(text.as_str())?),
        [Part::Variable { name, with_slashes }, rest @ ..] => {
            let longest = if *with_slashes { uri.len() } else { uri.find('/').unwrap_or(uri.len()) };
            // As much as possible first, so that `{name}.{kind}` splits at the last dot.
            (1..=longest).rev().filter(|at| uri.is_char_boundary(*at)).find_map(|at| {
                let mut found = fit(rest, &uri[at..])?;
                found.insert(0, (name.clone(), decoded(&uri[..at])));
                Some(found)
            })
        }
    }
}

/// Without percent signs; what is not well-formed stays as it is.
fn decoded(text: &str) -> String {
    let (mut bytes, mut rest) = (Vec::with_capacity(text.len()), text.as_bytes());
    while let [first, tail @ ..] = rest {
        let hex = tail.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        let hex = hex.filter(|_| *first == b'%').and_then(|digits| u8::from_str_radix(digits, 16).ok());
        bytes.push(hex.unwrap_or(*first));
        rest = if hex.is_some() { &tail[2..] } else { tail };
    }
    String::from_utf8(bytes).unwrap_or_else(|_| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(template: &str, uri: &str, expected: Option<&[(&str, &str)]>) {
        let got = Pattern::new(template).fit(uri);
        let expected: Option<Vec<_>> =
            expected.map(|pairs| pairs.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect());
        assert_eq!(got, expected, "{template} {uri}");
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
