//! A doc comment as a description: lines of a paragraph joined, and nothing after the first heading, since
//! sections such as `# Errors` are for readers of the code.

use syn::{Attribute, Error, Expr, ExprLit, ItemFn, Lit, Meta, Result};

pub(crate) fn description(function: &ItemFn) -> Result<String> {
    let lines: Vec<String> = function.attrs.iter().filter_map(doc_line).collect();
    let text = join(&lines);
    if text.is_empty() {
        let name = &function.sig.ident;
        let message =
            format!("`{name}` needs a doc comment: it is the description that models and people read");
        return Err(Error::new(name.span(), message));
    }
    Ok(text)
}

fn doc_line(attribute: &Attribute) -> Option<String> {
    let Meta::NameValue(meta) = &attribute.meta else { return None };
    match &meta.value {
        Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) if attribute.path().is_ident("doc") => {
            Some(text.value())
        }
        _ => None,
    }
}

fn join(doc: &[String]) -> String {
    let (mut lines, mut in_code): (Vec<String>, bool) = (Vec::new(), false);
    for line in doc.iter().flat_map(|block| block.split('\n')) {
        let line = line.strip_prefix(' ').unwrap_or(line).trim_end();
        if line.starts_with("# ") && !in_code {
            break;
        }
        let is_text = !in_code && !line.is_empty() && !is_fence(line) && !starts_own_line(line);
        match lines.last_mut() {
            Some(last) if is_text && !last.is_empty() && !is_fence(last) => last.extend([" ", line]),
            _ => lines.push(line.to_owned()),
        }
        in_code ^= is_fence(line);
    }
    lines.join("\n").trim().to_owned()
}

fn is_fence(line: &str) -> bool {
    line.trim_start().starts_with("```")
}

/// Lists, tables and indented lines keep their shape.
fn starts_own_line(line: &str) -> bool {
    let is_numbered = line.split_once(". ").is_some_and(|(number, _)| number.parse::<u32>().is_ok());
    is_numbered || line.starts_with(['-', '*', '|', ' ', '>'])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(doc: &str, expected: &str) {
        let lines: Vec<String> = doc.lines().map(str::to_owned).collect();
        assert_eq!(join(&lines), expected);
    }

    #[test]
    fn a_doc_comment_becomes_a_description() {
        check(" One.", "One.");
        check(" One\n line.", "One line.");
        check(" One.\n\n Two\n lines.", "One.\n\nTwo lines.");
        check(" One.\n\n - a\n - b\n\n Two.", "One.\n\n- a\n- b\n\nTwo.");
        check(" One.\n\n # Errors\n Never.", "One.");
        check(" One:\n 1. a\n 2. b", "One:\n1. a\n2. b");
        check(" One:\n ```\n # a\n\n b\n ```\n Two.", "One:\n```\n# a\n\nb\n```\nTwo.");
    }
}
