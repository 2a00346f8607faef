//! One place that a client visits, and what it must see there.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::offers::{Call, Offer};

/// The input of the clients. The expected results stay here.
#[derive(Debug, Serialize)]
pub(crate) struct Stop {
    pub(crate) url: String,
    pub(crate) calls: Vec<ToolCall>,
    pub(crate) resource: Option<String>,
    pub(crate) prompt: Option<String>,
    #[serde(skip)]
    expected: Vec<&'static Call>,
    #[serde(skip)]
    texts: (Option<&'static str>, Option<&'static str>),
}

#[derive(Debug, Serialize)]
pub(crate) struct ToolCall {
    pub(crate) name: String,
    pub(crate) arguments: Value,
}

/// A client's report of what it saw.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Seen {
    pub(crate) version: String,
    pub(crate) tools: Vec<String>,
    pub(crate) calls: Vec<Answer>,
    #[serde(default)]
    pub(crate) resources: Vec<String>,
    pub(crate) read: Option<String>,
    #[serde(default)]
    pub(crate) prompts: Vec<String>,
    pub(crate) got: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
pub(crate) struct Answer {
    pub(crate) text: String,
    /// The methods of the server's questions.
    pub(crate) asked: Vec<String>,
    pub(crate) progress: Vec<f64>,
}

impl Stop {
    /// One upstream as it is, with everything it offers.
    pub(crate) fn alone(url: String, offer: &'static Offer) -> Self {
        Self {
            url,
            calls: offer.calls.iter().map(|call| tool_call(call.tool.to_owned(), call)).collect(),
            resource: offer.resource.map(|(uri, _)| uri.to_owned()),
            prompt: offer.prompt.map(|(name, _)| name.to_owned()),
            expected: offer.calls.iter().collect(),
            texts: (offer.resource.map(|(_, text)| text), offer.prompt.map(|(_, text)| text)),
        }
    }

    /// Everything together: the first tool of each upstream, and the resource and the prompt of one.
    pub(crate) fn together(
        url: String,
        upstreams: &[(&'static str, &'static Offer)],
        more: &'static Offer,
    ) -> Self {
        let call = |(id, offer): &(&str, &'static Offer)| {
            let call = &offer.calls[0];
            tool_call(format!("{id}__{}", call.tool), call)
        };
        Self {
            url,
            calls: upstreams.iter().map(call).collect(),
            resource: more.resource.map(|(uri, _)| uri.to_owned()),
            prompt: more.prompt.map(|(name, _)| name.to_owned()),
            expected: upstreams.iter().map(|(_, offer)| &offer.calls[0]).collect(),
            texts: (more.resource.map(|(_, text)| text), more.prompt.map(|(_, text)| text)),
        }
    }

    /// How often the tool of call number `at` reports progress.
    pub(crate) fn progress_of(&self, at: usize) -> usize {
        self.expected[at].progress.len()
    }

    /// The differences from what is expected.
    pub(crate) fn check(&self, version: &str, seen: &Seen) -> Vec<String> {
        let mut wrong = Vec::new();
        let mut expect = |holds: bool, what: String| {
            if !holds {
                wrong.push(format!("at {}: {what}", self.url));
            }
        };
        expect(seen.version == version, format!("version {} and not {version}", seen.version));
        expect(seen.calls.len() == self.calls.len(), format!("{} call(s)", seen.calls.len()));
        for ((call, expected), answer) in self.calls.iter().zip(&self.expected).zip(&seen.calls) {
            expect(seen.tools.contains(&call.name), format!("{} is not listed: {:?}", call.name, seen.tools));
            expect(expected.is_answered_by(answer), format!("{} answered {answer:?}", call.name));
        }
        let (text, message) = self.texts;
        let contains =
            |seen: &Option<String>, text: &str| seen.as_ref().is_some_and(|seen| seen.contains(text));
        expect(text.is_none_or(|text| contains(&seen.read, text)), format!("read {:?}", seen.read));
        expect(message.is_none_or(|text| contains(&seen.got, text)), format!("got {:?}", seen.got));
        let is_listed =
            |name: &Option<String>, list: &[String]| name.as_ref().is_none_or(|name| list.contains(name));
        expect(is_listed(&self.resource, &seen.resources), format!("resources {:?}", seen.resources));
        expect(is_listed(&self.prompt, &seen.prompts), format!("prompts {:?}", seen.prompts));
        wrong
    }
}

fn tool_call(name: String, call: &Call) -> ToolCall {
    ToolCall { name, arguments: serde_json::from_str(call.arguments).unwrap() }
}

impl Call {
    fn is_answered_by(&self, answer: &Answer) -> bool {
        // Some clients make up progress of their own while they are asked.
        let progress = self.progress.is_empty() || answer.progress == self.progress;
        answer.text.contains(self.text) && answer.asked == self.asked && progress
    }
}
