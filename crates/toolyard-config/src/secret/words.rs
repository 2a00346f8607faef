//! Finds the secrets in command lines and URLs, for those who show them and for those who leave them behind, so that
//! both take the same for secrets.

use super::{is_reference, is_secret, is_secret_name};

/// The replacement of a secret: its variable name, given or derived, and its value.
type Instead<'a> = dyn FnMut(&str, &str) -> String + 'a;

/// How values of headers begin that say what they are.
const SCHEMES: [&str; 5] = ["Bearer", "Basic", "Token", "ApiKey", "Digest"];

/// Arguments with something else instead of each secret: in `--token X`, `--token=X`, `TOKEN=X`,
/// `--header 'Authorization: X'`, in a URL, and in whatever looks like a token.
pub fn args(args: &[String], instead: &mut Instead<'_>) -> Vec<String> {
    let mut flag = "";
    let mut out = Vec::new();
    for arg in args {
        let is_value = !arg.starts_with('-');
        out.push(if is_value && is_secret_name(flag) && !arg.is_empty() && !is_reference(arg) {
            instead(flag, arg)
        } else if is_value && ["-H", "--header", "--headers"].contains(&flag) {
            pair(arg, ":", instead).unwrap_or_else(|| word(arg, instead))
        } else {
            word(arg, instead)
        });
        flag = if is_value || arg.contains('=') { "" } else { arg };
    }
    out
}

fn word(text: &str, instead: &mut Instead<'_>) -> String {
    if let Some(found) = pair(text, "=", instead).or_else(|| pair(text, ": ", instead)) {
        return found;
    }
    if text.contains("://") {
        return url(text, instead);
    }
    if !text.starts_with('-') && is_secret("", text) { instead("token", text) } else { text.to_owned() }
}

/// A name with its value; nothing where it is not one.
fn pair(text: &str, separator: &str, instead: &mut Instead<'_>) -> Option<String> {
    let (name, rest) = text.split_once(separator)?;
    let is_name = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c));
    let value = rest.trim_start();
    let space = &rest[..rest.len() - value.len()];
    is_name.then(|| {
        let value =
            if is_secret(name, value) { credential(name, value, instead) } else { word(value, instead) };
        format!("{name}{separator}{space}{value}")
    })
}

/// The value of a header. Its scheme, such as `Bearer`, stays.
pub fn credential(name: &str, value: &str, instead: &mut Instead<'_>) -> String {
    match value.split_once(' ') {
        Some((scheme, rest)) if SCHEMES.iter().any(|known| known.eq_ignore_ascii_case(scheme)) => {
            format!("{scheme} {}", instead(name, rest))
        }
        _ => instead(name, value),
    }
}

/// A URL with something else instead of each secret: its password, parts of its path that look like tokens, and what
/// its query names so.
pub fn url(url: &str, instead: &mut Instead<'_>) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_owned() };
    let (start, query) = rest.split_once('?').map_or((rest, None), |(start, query)| (start, Some(query)));
    let (authority, path) = start.split_at(start.find('/').unwrap_or(start.len()));
    let authority = match authority.rsplit_once('@') {
        Some((user, host)) => format!("{}@{host}", user_of(user, instead)),
        None => authority.to_owned(),
    };
    let path: Vec<String> = path.split('/').map(|part| token(part, instead)).collect();
    let query = query.map(|query| {
        let pairs: Vec<String> = query
            .split('&')
            .map(|part| pair(part, "=", instead).unwrap_or_else(|| token(part, instead)))
            .collect();
        format!("?{}", pairs.join("&"))
    });
    format!("{scheme}://{authority}{}{}", path.join("/"), query.unwrap_or_default())
}

fn user_of(text: &str, instead: &mut Instead<'_>) -> String {
    match text.split_once(':') {
        Some((user, password)) if is_secret("password", password) => {
            format!("{}:{}", token(user, instead), instead("password", password))
        }
        _ => token(text, instead),
    }
}

fn token(text: &str, instead: &mut Instead<'_>) -> String {
    if is_secret("", text) { instead("token", text) } else { text.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::super::{masked_args, masked_url};
    use super::args;

    #[test]
    fn arguments_that_are_shown_hold_no_secret() {
        let check = |line: &[&str], expected: &[&str]| {
            let words: Vec<String> = line.iter().map(|word| (*word).to_owned()).collect();
            assert_eq!(masked_args(&words), expected);
        };
        check(&["-y", "pkg", "--dir=/srv", "${T}"], &["-y", "pkg", "--dir=/srv", "${T}"]);
        check(&["--token", "abc", "--api-key=abc"], &["--token", "********", "--api-key=********"]);
        check(&["ghp_0123456789abcdef"], &["********"]);
        check(&["-e", "A_TOKEN=abc", "--env=KEY=abc"], &["-e", "A_TOKEN=********", "--env=KEY=********"]);
        check(
            &["--header", "Authorization: Bearer hunter2"],
            &["--header", "Authorization: Bearer ********"],
        );
        check(
            &["-H", "X-Api-Key:abc", "-H", "Accept:text"],
            &["-H", "X-Api-Key:********", "-H", "Accept:text"],
        );
        check(&["--header=Authorization: abc"], &["--header=Authorization: ********"]);
        check(&["--header", "Authorization: ${AUTH}"], &["--header", "Authorization: ${AUTH}"]);
        check(&["Cookie: a=b; c=d"], &["Cookie: ********"]);
        check(&["--url=https://u:abc@h/mcp"], &["--url=https://u:********@h/mcp"]);
        check(&["token-server:latest", "C:\\key:x"], &["token-server:latest", "C:\\key:x"]);
    }

    #[test]
    fn a_url_that_is_shown_holds_no_secret() {
        let check = |url: &str, expected: &str| assert_eq!(masked_url(url), expected);
        check("http://a/b?x=1&api_key=abc", "http://a/b?x=1&api_key=********");
        check("https://user:hunter3@host:1/mcp", "https://user:********@host:1/mcp");
        check("https://ghp_0123456789abcdef@host", "https://********@host");
        check("https://you@host/a@b:c", "https://you@host/a@b:c");
        check("https://h/api/s/a1b2c3d4e5f6a7b8c9d0e1f2/mcp", "https://h/api/s/********/mcp");
        check("https://h/a/${TOKEN}/b?key=${KEY}", "https://h/a/${TOKEN}/b?key=${KEY}");
        check("https://h/v1/mcp?", "https://h/v1/mcp?");
    }

    #[test]
    fn removed_secrets_are_reported_by_name() {
        let words = ["--password", "a", "X_KEY=b", "--header", "Authorization: Bearer c", "http://u:d@h/"];
        let mut found = Vec::new();
        args(&words.map(str::to_owned), &mut |name, value| {
            found.push(format!("{name} {value}"));
            String::new()
        });
        assert_eq!(found, ["--password a", "X_KEY b", "Authorization c", "password d"]);
    }
}
