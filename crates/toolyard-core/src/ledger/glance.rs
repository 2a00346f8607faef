//! A quick look at an answer. Nearly all contain no sign of an error, and those need not be parsed.
//!
//! Within a string a quote always has a backslash before it, so what is found here are keys, at any depth.

use std::sync::LazyLock;

use memchr::memmem::Finder;

static FAILED: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new("\"isError\""));
static ERROR: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new("\"error\""));

/// Whether it may be the result of a tool that failed: some `isError` in it is not plainly false.
pub(crate) fn may_have_failed(json: &[u8]) -> bool {
    FAILED.find_iter(json).any(|at| {
        let mut rest = json[at + FAILED.needle().len()..].iter();
        let value = rest.find(|byte| !byte.is_ascii_whitespace() && **byte != b':');
        value != Some(&b'f')
    })
}

/// Whether it may be an error in place of a result.
pub(crate) fn may_be_error(json: &[u8]) -> bool {
    ERROR.find(json).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plainly_good_answers_are_not_parsed() {
        let check = |json: &str, failed: bool, error: bool| {
            assert_eq!(
                (may_have_failed(json.as_bytes()), may_be_error(json.as_bytes())),
                (failed, error),
                "{json}"
            );
        };
        check(r#"{"result":{"content":[],"isError":false}}"#, false, false);
        check(r#"{"result":{"isError" : false,"s":{"isError":null}}}"#, true, false);
        check("{\"result\":{\"isError\" :\n true}}", true, false);
        check(r#"{"result":{"content":[{"text":"\"isError\":true, \"error\""}]}}"#, false, false);
        check(r#"{"error":{"code":-1}}"#, false, true);
        check(r#"{"result":{"isError""#, true, false);
    }
}
