//! What may fail, and why: `conformance-baseline.txt`, one excuse per line.

const FILE: &str = include_str!("../../conformance-baseline.txt");

/// One scenario (`name`) or one of its checks (`name:check`) that need not pass.
pub(super) struct Excuse {
    pub(super) what: String,
    pub(super) reason: String,
}

/// The excuses for one arrangement.
pub(super) fn excused(requirements: &str, upstream: &str, era: &str) -> Vec<Excuse> {
    FILE.lines().filter_map(|line| parse(line, [requirements, upstream, era])).collect()
}

/// `requirements | upstream | era | what | reason`; `*` fits anything.
fn parse(line: &str, arrangement: [&str; 3]) -> Option<Excuse> {
    let fields: Vec<&str> = line.split('|').map(str::trim).collect();
    let [requirements, upstream, era, what, reason] = fields[..] else { return None };
    let fits = |(field, value): (&str, &str)| field == "*" || field == value;
    let all = [requirements, upstream, era].into_iter().zip(arrangement).all(fits);
    all.then(|| Excuse { what: what.to_owned(), reason: reason.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_excuse_holds_for_its_arrangement_only() {
        let line = "2025-11-25 | stdio | * | ping | it is a test";
        assert!(parse(line, ["2025-11-25", "stdio", "legacy"]).is_some());
        assert!(parse(line, ["2025-11-25", "http", "legacy"]).is_none());
        assert!(parse("# a comment", ["2025-11-25", "http", "legacy"]).is_none());
    }

    #[test]
    fn every_line_of_the_file_is_a_comment_or_has_a_reason() {
        for line in FILE.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#')) {
            assert_eq!(line.split('|').filter(|field| !field.trim().is_empty()).count(), 5, "{line}");
        }
    }
}
