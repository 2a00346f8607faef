//! Text that people do not see, and text that speaks to the model instead of describing a tool.

use std::collections::BTreeSet;
use std::sync::LazyLock;

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

/// Phrases by which definitions have been seen to instruct models.
const PHRASES: [&str; 14] = [
    r"\b(ignore|disregard|forget|override)\b.{0,40}\b(previous|prior|above|earlier|other|all|any|system)\b.{0,40}\b(instructions?|rules?|prompts?|messages?)",
    r"\b(do not|don't|never|must not|without)\b.{0,30}\b(tell|telling|mention|mentioning|inform|informing|reveal|revealing|show|showing|notify|notifying|ask|asking|disclose|alert)\b.{0,30}\buser\b",
    r"\b(hide|conceal|secretly|covertly|silently)\b.{0,40}\b(user|send|upload|copy|read|include|pass)",
    r"<\s*/?\s*(important|system|secret|instructions?|hidden|assistant|admin)\s*>",
    r"\[\s*(system|inst|important|admin)\s*\]|<\|[a-z_]+\|>",
    r"\b(before|prior to|instead of|after)\b.{0,30}\b(using|calling|invoking|running)\b.{0,30}\b(any|other|another|this|the)\b.{0,20}\btools?\b",
    r"\b(always|must|first)\b.{0,20}\b(call|use|invoke|run)\b.{0,30}\b(this|these)\b.{0,10}\b(tool|function)",
    r"\byou (must|should|have to|need to|are required to) (always|first|never|now|also|immediately)\b",
    r"(~|\$home|/home/\w+|/root)/\.(ssh|aws|gnupg|kube|config|cursor|claude|netrc|npmrc)|\bid_(rsa|ed25519)\b|/etc/(passwd|shadow)|\bmcp\.json\b",
    r"\b(read|include|send|pass|attach|paste|copy|forward|provide|return)\b.{0,50}\b(contents? of|api[ _-]?keys?|passwords?|credentials?|secrets?|tokens?|private keys?|\.env|environment variables?)\b",
    r"\b(system prompt|conversation history|chat history|previous messages|full conversation|entire conversation)\b",
    r"\b(send|post|upload|forward|exfiltrate|transmit|bcc|cc)\b.{0,60}\b(https?://|to the (url|endpoint|address)|[\w.]+@[\w.]+)",
    r"\b(you are now|act as|pretend to be|new instructions|your real task|from now on)\b",
    r"\b(this tool (overrides|replaces|takes precedence)|prefer this tool over|do not use (any )?other tools?)\b",
];

static PATTERNS: LazyLock<Vec<Regex>> = LazyLock::new(|| {
    let pattern = |phrase: &&str| {
        let built = RegexBuilder::new(phrase).case_insensitive(true).build();
        built.expect("the phrases are patterns, as a test shows")
    };
    PHRASES.iter().map(pattern).collect()
});

/// Which of the phrases a value has. Hidden characters and line breaks do not disguise one.
pub(super) fn instructions_in(value: &Value) -> BTreeSet<usize> {
    let mut found = BTreeSet::new();
    for text in texts(value) {
        let visible: String = text.chars().filter(|char| !is_hidden(*char)).collect();
        let words = visible.split_whitespace().collect::<Vec<_>>().join(" ");
        found.extend(PATTERNS.iter().enumerate().filter(|(_, one)| one.is_match(&words)).map(|(at, _)| at));
    }
    found
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
