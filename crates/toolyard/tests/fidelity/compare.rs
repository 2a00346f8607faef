//! Compares the direct exchanges with those through the gateway.

use serde_json::Value;

use super::agenda::Subject;
use super::mask::mask;
use super::record::{LISTS, Recording, entries};
use super::view::{ID, View, name_of};
use super::wire::{Era, Exchange};

/// Each difference, in a readable form.
pub(crate) fn differences(
    subject: &Subject,
    era: Era,
    view: View,
    direct: &Recording,
    through: &Recording,
) -> Vec<String> {
    let mut differences = Differences::default();
    if view == View::Alone {
        compare_greetings(&mut differences, era, &direct.greeting, &through.greeting);
    }
    for (at, (method, member)) in LISTS.into_iter().enumerate() {
        let expected = entries(&direct.lists[at], member);
        let expected: Vec<String> = expected.iter().map(|entry| shown_entry(view, member, entry)).collect();
        let got = entries(&through.lists[at], member);
        let got: Vec<String> =
            got.into_iter().filter(|entry| is_of_the_upstream(view, member, entry)).collect();
        let entry = |list: &[String], at: usize| list.get(at).cloned().unwrap_or_default();
        for at in 0..expected.len().max(got.len()) {
            differences.add(&format!("entry {at} of {method}"), &entry(&expected, at), &entry(&got, at));
        }
    }
    let labels = |recording: &Recording| -> Vec<String> {
        recording.exchanges.iter().map(|(label, _)| label.clone()).collect()
    };
    differences.add("the course of it", &labels(direct).join("\n"), &labels(through).join("\n"));
    for (label, expected) in &direct.exchanges {
        if let Some((_, got)) = through.exchanges.iter().find(|(other, _)| other == label) {
            compare_exchanges(&mut differences, subject, view, label, expected, got);
        }
    }
    differences.found
}

/// The versions are the gateway's: it speaks more of them than the server.
fn compare_greetings(differences: &mut Differences, era: Era, direct: &Exchange, through: &Exchange) {
    let without_versions = |greeting: &Exchange| -> String {
        let mut greeting = greeting.result();
        if era == Era::Modern {
            greeting["supportedVersions"] = Value::Null;
        }
        greeting.to_string()
    };
    differences.add("the greeting", &without_versions(direct), &without_versions(through));
}

fn shown_entry(view: View, member: &str, entry: &str) -> String {
    match member {
        "tools" | "prompts" => view.named_entry(entry),
        _ => view.answer(entry),
    }
}

/// Where everything is shown, there are the gateway's own tools, too.
fn is_of_the_upstream(view: View, member: &str, entry: &str) -> bool {
    view != View::Everything || member != "tools" || name_of(entry).starts_with(&format!("{ID}__"))
}

fn compare_exchanges(
    differences: &mut Differences,
    subject: &Subject,
    view: View,
    label: &str,
    direct: &Exchange,
    through: &Exchange,
) {
    let mask = |text: &str| mask(subject.unsteady, text);
    let (expected, got) = (outcome(direct), outcome(through));
    differences.add(&format!("the answer to `{label}`"), &mask(&view.answer(&expected)), &mask(&got));
    let asked = |exchange: &Exchange| -> String {
        let asked =
            exchange.asked.iter().filter(|(method, _)| !subject.asks_by_itself.contains(&method.as_str()));
        lines(&asked.cloned().collect::<Vec<_>>())
    };
    let (expected, got) = (asked(direct), asked(through));
    differences.add(&format!("what `{label}` asks"), &mask(&expected), &mask(&got));
    let notifications = |exchange: &Exchange| -> String {
        let notifications =
            exchange.notifications.iter().filter(|(method, _)| belongs_to_a_call(subject, method));
        lines(&notifications.cloned().collect::<Vec<_>>())
    };
    differences.add(&format!("notifications of `{label}`"), &notifications(direct), &notifications(through));
}

fn belongs_to_a_call(subject: &Subject, method: &str) -> bool {
    method == "notifications/progress" || (method == "notifications/message" && subject.logs_are_steady)
}

fn outcome(exchange: &Exchange) -> String {
    match &exchange.outcome {
        Ok(result) => format!("result {result}"),
        Err(error) => format!("error {error}"),
    }
}

fn lines(messages: &[(String, String)]) -> String {
    let lines: Vec<String> = messages.iter().map(|(method, params)| format!("{method} {params}")).collect();
    lines.join("\n")
}

#[derive(Default)]
struct Differences {
    found: Vec<String>,
}

impl Differences {
    fn add(&mut self, what: &str, expected: &str, got: &str) {
        if expected != got {
            self.found.push(format!("- {what}\n    expected: {expected}\n    got:      {got}"));
        }
    }
}
