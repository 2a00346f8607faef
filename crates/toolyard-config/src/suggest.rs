//! Finds the known word that is nearest to an unknown one.

/// Keys of other programs that mean the same as a key here.
const ELSEWHERE: [(&str, &str); 5] = [
    ("mcp_servers", "upstreams"),
    ("servers", "upstreams"),
    ("context_servers", "upstreams"),
    ("type", "transport"),
    ("disabled", "enabled"),
];

/// The candidate nearest to `word`, if one is near enough to be a slip of the finger or a matter of style
/// (`nameBudget` for `name_budget`).
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let plain = |text: &str| text.replace(['_', '-', ' '], "").to_lowercase();
    let word = plain(word);
    let candidates: Vec<&str> = candidates.into_iter().collect();
    let same = ELSEWHERE.iter().find(|(theirs, ours)| plain(theirs) == word && candidates.contains(ours));
    if let Some((_, ours)) = same {
        return Some(ours);
    }
    let length = word.chars().count();
    // Of one or two letters, any other short word would be near.
    let most = if length < 3 { 0 } else { length.div_ceil(3).min(3) };
    candidates
        .into_iter()
        .map(|candidate| (strsim::damerau_levenshtein(&word, &plain(candidate)), candidate))
        .filter(|(distance, _)| *distance <= most)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn slips_get_a_suggestion_and_other_words_do_not() {
        let known = ["command", "args", "env", "cwd", "url", "name_budget"];
        let check = |word: &str, expected: Option<&str>| assert_eq!(nearest(word, known), expected, "{word}");
        check("comand", Some("command"));
        check("Command", Some("command"));
        check("arsg", Some("args"));
        check("nameBudget", Some("name_budget"));
        check("uri", Some("url"));
        check("description", None);
        check("x", None);
        assert_eq!(nearest("mcpServers", ["apps", "upstreams"]), Some("upstreams"));
        assert_eq!(nearest("mcp_servers", ["apps"]), None);
    }
}
