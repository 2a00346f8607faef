//! The variables of a template.

/// Whether all braces enclose a name.
pub(crate) fn has_names_in_braces(mut text: &str) -> bool {
    while let Some((before, after)) = text.split_once('{') {
        let Some((name, rest)) = after.split_once('}') else { return false };
        let name = name.strip_prefix('+').unwrap_or(name);
        let is_legal = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
        if before.contains('}') || name.is_empty() || !name.chars().all(is_legal) {
            return false;
        }
        text = rest;
    }
    !text.contains('}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn braces_enclose_names_only() {
        for right in ["a://{b}", "a://{+b}/{c_d}.{e-f}", "a://b"] {
            assert!(has_names_in_braces(right), "{right}");
        }
        for wrong in
            ["a://}b{c", "a://}{", "a://{}", "a://{+}", "a://{{b}}", "a://{b}}{c", "a://{?b}", "a://{b*}"]
        {
            assert!(!has_names_in_braces(wrong), "{wrong}");
        }
    }
}
