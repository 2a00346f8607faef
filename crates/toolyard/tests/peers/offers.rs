//! What each kind of server offers, and its answers.

use super::wire::{LEGACY, MODERN};

/// A server's tools, and perhaps a resource and a prompt with the text of each.
#[derive(Debug)]
pub(crate) struct Offer {
    /// The newest version it speaks.
    pub(crate) version: &'static str,
    /// The first asks nothing and reports nothing.
    pub(crate) calls: &'static [Call],
    pub(crate) resource: Option<(&'static str, &'static str)>,
    pub(crate) prompt: Option<(&'static str, &'static str)>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Call {
    pub(crate) tool: &'static str,
    pub(crate) arguments: &'static str,
    /// The answer contains this.
    pub(crate) text: &'static str,
    pub(crate) asked: &'static [&'static str],
    pub(crate) progress: &'static [f64],
}

const ELICIT: &[&str] = &["elicitation/create"];
const SAMPLE: &[&str] = &["sampling/createMessage"];

const fn plain(tool: &'static str, arguments: &'static str, text: &'static str) -> Call {
    Call { tool, arguments, text, asked: &[], progress: &[] }
}

const fn asking(call: Call, asked: &'static [&'static str]) -> Call {
    Call { asked, ..call }
}

const fn reporting(call: Call, progress: &'static [f64]) -> Call {
    Call { progress, ..call }
}

pub(crate) static FIXTURE: Offer = Offer {
    version: MODERN,
    calls: &[
        plain("greet", r#"{"name":"you"}"#, "Hello, you!"),
        reporting(plain("test_tool_with_progress", "{}", "Progress was reported"), &[0.0, 50.0, 100.0]),
        asking(plain("test_input_required_result_elicitation", "{}", "Hello, Ada!"), ELICIT),
        asking(plain("test_sampling", r#"{"prompt":"?"}"#, "LLM response: A model would say so."), SAMPLE),
    ],
    resource: Some(("test://static-text", "This is the content of the static text resource.")),
    prompt: Some(("test_simple_prompt", "This is a simple prompt for testing.")),
};

pub(crate) static EVERYTHING: Offer = Offer {
    version: LEGACY,
    calls: &[
        plain("echo", r#"{"message":"here"}"#, "Echo: here"),
        reporting(
            plain("trigger-long-running-operation", r#"{"duration":0.2,"steps":4}"#, "operation completed"),
            &[1.0, 2.0, 3.0, 4.0],
        ),
        asking(plain("trigger-elicitation-request", "{}", "- Name: Ada"), ELICIT),
        asking(plain("trigger-sampling-request", r#"{"prompt":"?"}"#, "A model would say so."), SAMPLE),
    ],
    resource: Some(("demo://resource/static/document/architecture.md", "Everything Server")),
    prompt: Some(("simple-prompt", "This is a simple prompt without arguments.")),
};

pub(crate) static PYTHON: Offer = Offer {
    version: MODERN,
    calls: &[
        plain("echo", r#"{"text":"here"}"#, "Python: here"),
        reporting(plain("count", "{}", "Counted to three"), &[1.0, 2.0, 3.0]),
        asking(plain("greet", "{}", "Hello, Ada!"), ELICIT),
        asking(plain("think", "{}", "The model: A model would say so."), SAMPLE),
    ],
    resource: Some(("note://one", "A note from Python")),
    prompt: Some(("hello", "Say hello from Python")),
};

/// Valid entries in lists that no client accepts as a whole.
pub(crate) static STRANGE: Offer = Offer {
    version: LEGACY,
    calls: &[plain("fine", "{}", "fine")],
    resource: Some(("yard+odd:strange/fine", "fine")),
    prompt: Some(("strange__fine", "fine")),
};

pub(crate) static RUST: Offer = Offer {
    version: MODERN,
    calls: &[
        plain("echo", r#"{"text":"here"}"#, "Rust: here"),
        reporting(plain("count", "{}", "Counted to three"), &[1.0, 2.0, 3.0]),
    ],
    resource: None,
    prompt: None,
};
