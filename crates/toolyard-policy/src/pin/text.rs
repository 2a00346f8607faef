//! Finds text that people do not see, and text that instructs the model instead of describing a tool.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use aho_corasick::AhoCorasick;
use regex_lite::{Regex, RegexBuilder};
use serde_json::Value;

/// How many characters of a value are hidden ones.
pub(super) fn hidden_in(value: &Value) -> usize {
    texts(value).map(hidden).sum()
}

/// Characters that are not shown, or that change how others are shown. A joiner or a selector within an emoji is part
/// of it.
fn hidden(text: &str) -> usize {
    let mut before = ' ';
    let mut count = 0;
    for char in text.chars() {
        let joins_emoji = char == '\u{200d}' && (before >= '\u{1f000}' || before == '\u{fe0f}');
        count += usize::from(is_hidden(char) && !joins_emoji);
        before = char;
    }
    count
}

pub(super) fn is_hidden(char: char) -> bool {
    let is_control = char.is_control() && !matches!(char, '\n' | '\r' | '\t');
    is_control
        || matches!(char,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180e}'
            | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{feff}'
            | '\u{ffa0}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}' | '\u{e0100}'..='\u{e01ef}')
}

/// A phrase by which definitions have been seen to instruct models.
struct Phrase {
    /// Every text that has the phrase has at least one of these words, in any case. Few texts do, and only those are
    /// searched for the pattern: a server may have tens of thousands of texts.
    words: &'static [&'static str],
    pattern: &'static str,
}

const PHRASES: [Phrase; 14] = [
    Phrase {
        words: &["ignore", "disregard", "forget", "override"],
        pattern: r"\b(ignore|disregard|forget|override)\b.{0,40}\b(previous|prior|above|earlier|other|all|any|system)\b.{0,40}\b(instructions?|rules?|prompts?|messages?)",
    },
    Phrase {
        words: &["user"],
        pattern: r"\b(do not|don't|never|must not|without)\b.{0,30}\b(tell|telling|mention|mentioning|inform|informing|reveal|revealing|show|showing|notify|notifying|ask|asking|disclose|alert)\b.{0,30}\buser\b",
    },
    Phrase {
        words: &["hide", "conceal", "secretly", "covertly", "silently"],
        pattern: r"\b(hide|conceal|secretly|covertly|silently)\b.{0,40}\b(user|send|upload|copy|read|include|pass)",
    },
    Phrase {
        words: &["<"],
        pattern: r"<\s*/?\s*(important|system|secret|instructions?|hidden|assistant|admin)\s*>",
    },
    Phrase { words: &["[", "<|"], pattern: r"\[\s*(system|inst|important|admin)\s*\]|<\|[a-z_]+\|>" },
    Phrase {
        words: &["tool"],
        pattern: r"\b(before|prior to|instead of|after)\b.{0,30}\b(using|calling|invoking|running)\b.{0,30}\b(any|other|another|this|the)\b.{0,20}\btools?\b",
    },
    Phrase {
        words: &["tool", "function"],
        pattern: r"\b(always|must|first)\b.{0,20}\b(call|use|invoke|run)\b.{0,30}\b(this|these)\b.{0,10}\b(tool|function)",
    },
    Phrase {
        words: &["you "],
        pattern: r"\byou (must|should|have to|need to|are required to) (always|first|never|now|also|immediately)\b",
    },
    Phrase {
        words: &["/.", "id_", "/etc/", "mcp.json"],
        pattern: r"(~|\$home|/home/\w+|/root)/\.(ssh|aws|gnupg|kube|config|cursor|claude|netrc|npmrc)|\bid_(rsa|ed25519)\b|/etc/(passwd|shadow)|\bmcp\.json\b",
    },
    Phrase {
        words: &[
            "content",
            "api",
            "password",
            "credential",
            "secret",
            "token",
            "private key",
            ".env",
            "environment variable",
        ],
        pattern: r"\b(read|include|send|pass|attach|paste|copy|forward|provide|return)\b.{0,50}\b(contents? of|api[ _-]?keys?|passwords?|credentials?|secrets?|tokens?|private keys?|\.env|environment variables?)\b",
    },
    Phrase {
        words: &["prompt", "history", "messages", "conversation"],
        pattern: r"\b(system prompt|conversation history|chat history|previous messages|full conversation|entire conversation)\b",
    },
    Phrase {
        words: &["http", "to the ", "@"],
        pattern: r"\b(send|post|upload|forward|exfiltrate|transmit|bcc|cc)\b.{0,60}\b(https?://|to the (url|endpoint|address)|[\w.]+@[\w.]+)",
    },
    Phrase {
        words: &[
            "you are now",
            "act as",
            "pretend to be",
            "new instructions",
            "your real task",
            "from now on",
        ],
        pattern: r"\b(you are now|act as|pretend to be|new instructions|your real task|from now on)\b",
    },
    Phrase {
        words: &["tool"],
        pattern: r"\b(this tool (overrides|replaces|takes precedence)|prefer this tool over|do not use (any )?other tools?)\b",
    },
];

static PATTERNS: LazyLock<Vec<Regex>> = LazyLock::new(|| {
    let pattern = |phrase: &Phrase| {
        let built = RegexBuilder::new(phrase.pattern).case_insensitive(true).build();
        built.expect("the phrases are patterns, as a test shows")
    };
    PHRASES.iter().map(pattern).collect()
});

/// The words of all phrases, and for each word the phrases that it can be part of.
struct Words {
    finder: AhoCorasick,
    phrases: Vec<Vec<usize>>,
}

static WORDS: LazyLock<Words> = LazyLock::new(|| {
    let words: BTreeSet<&str> = PHRASES.iter().flat_map(|phrase| phrase.words).copied().collect();
    let finder = AhoCorasick::builder().ascii_case_insensitive(true).build(&words);
    let with = |word: &&str| {
        let numbered = PHRASES.iter().enumerate();
        numbered.filter(|(_, phrase)| phrase.words.contains(word)).map(|(at, _)| at).collect()
    };
    Words {
        finder: finder.expect("a few short words make a small automaton"),
        phrases: words.iter().map(with).collect(),
    }
});

/// Which of the phrases a value has. Hidden characters and line breaks do not disguise one.
pub(super) fn instructions_in(value: &Value) -> BTreeSet<usize> {
    let mut found = BTreeSet::new();
    for text in texts(value) {
        let visible: String = text.chars().filter(|char| !is_hidden(*char)).collect();
        let words = visible.split_whitespace().collect::<Vec<_>>().join(" ");
        let possible = possible_in(&words);
        found.extend(possible.into_iter().filter(|at| PATTERNS[*at].is_match(&words)));
    }
    found
}

/// The phrases that a text can have, going by its words.
fn possible_in(text: &str) -> BTreeSet<usize> {
    let words = &*WORDS;
    // Overlapping, since one word may be part of another.
    let found = words.finder.find_overlapping_iter(text);
    found.flat_map(|word| &words.phrases[word.pattern().as_usize()]).copied().collect()
}

/// Every text of a value, keys included.
fn texts(value: &Value) -> Box<dyn Iterator<Item = &str> + '_> {
    match value {
        Value::String(text) => Box::new(std::iter::once(text.as_str())),
        Value::Array(items) => Box::new(items.iter().flat_map(texts)),
        Value::Object(members) => Box::new(
            members.iter().flat_map(|(key, member)| std::iter::once(key.as_str()).chain(texts(member))),
        ),
        _ => Box::new(std::iter::empty()),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Words of the patterns in any order and case, with some that belong to none of them.
    fn sentence() -> impl Strategy<Value = String> {
        let words = "ignore Forget all previous above instructions rules do not never tell show the USER hide secretly \
            send include copy upload <important> < system > [INST] <|im_start|> before calling any other tool tools \
            must always first call use this function You should have to need to now also ~/.ssh /home/me/.aws id_rsa \
            /etc/passwd MCP.json read pass contents content of api_key api-keys Password credentials secret tokens \
            private keys .env environment variables system prompt conversation history previous messages https://x to \
            the url endpoint me@x.org post you are now act as pretend to be new instructions your real task from on \
            overrides prefer over without asking zero\u{200b}width record fields";
        let words: Vec<&'static str> = words.split(' ').collect();
        prop::collection::vec(prop::sample::select(words), 1..14).prop_map(|words| words.join(" "))
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2_000))]

        #[test]
        fn the_words_of_a_phrase_are_in_every_text_that_has_it(text in sentence()) {
            let by_pattern = PATTERNS.iter().enumerate().filter(|(_, one)| one.is_match(&text)).map(|(at, _)| at);
            let by_pattern: BTreeSet<usize> = by_pattern.collect();
            prop_assert!(by_pattern.is_subset(&possible_in(&text)), "{}", text);
        }
    }
}
