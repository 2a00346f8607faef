//! `[limits.NAME]`: how many calls may run at once or start in a time. Tools are given limits by `limits` in their
//! own sections.

use std::sync::Arc;
use std::time::Duration;

use toolyard_core::{LimitPlan, Per};
use toolyard_limits::{Limit, Rate, Window};

use super::duration;
use super::reader::{Field, Reader, Section};

const LONGEST_WAIT: Duration = Duration::from_hours(1);
/// Enough for every machine, and small enough to be a mistake above.
const MOST: i64 = 100_000;

pub(crate) fn read(root: &mut Section, reader: &mut Reader<'_>) -> Vec<LimitPlan> {
    let sections = root.named_sections(reader, "limits");
    sections.into_iter().map(|(field, section)| read_one(reader, &field, section)).collect()
}

fn read_one(reader: &mut Reader<'_>, field: &Field, mut section: Section) -> LimitPlan {
    reader.keep_place(field);
    let usual = Limit::default();
    let per = section.take("per").and_then(|field| field.choice(reader, &Per::ALL));
    let concurrent = section.take("concurrent");
    let rate = section.take("rate");
    let window = section.take("window");
    if concurrent.is_none() && rate.is_none() && window.is_none() {
        let help = "write concurrent = 4, rate = \"10/s\" or window = \"30/1m\", or remove the section";
        field.error(reader, "sets none of `concurrent`, `rate` and `window`", help);
    }
    let concurrent = concurrent.and_then(|field| number(reader, &field, 1));
    let burst = section.take("burst").and_then(|field| number(reader, &field, 1)).unwrap_or(1);
    let rate = rate.and_then(|field| per_time(reader, &field));
    let window = window.and_then(|field| per_time(reader, &field));
    let queue = section.take("queue").and_then(|field| number(reader, &field, 0));
    let max_wait = section.take("max_wait");
    let max_wait = max_wait.and_then(|field| field.duration_within(reader, Duration::ZERO, LONGEST_WAIT));
    section.finish(reader);
    let small = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
    LimitPlan {
        name: Arc::from(field.key.as_str()),
        per: per.unwrap_or_default(),
        limit: Limit {
            concurrent,
            rate: rate.map(|(count, per)| Rate { count: small(count), per, burst: small(burst) }),
            window: window.map(|(count, per)| Window { count, per }),
            queue: queue.unwrap_or(usual.queue),
            max_wait: max_wait.unwrap_or(usual.max_wait),
        },
    }
}

fn number(reader: &mut Reader<'_>, field: &Field, least: i64) -> Option<usize> {
    let number = field.integer(reader)?;
    let checked = usize::try_from(number).ok().filter(|_| (least..=MOST).contains(&number));
    if checked.is_none() {
        let message = format!("expected a number from {least} to {MOST}, found {number}");
        field.error(reader, message, format!("write {}", field.example(reader, "10")));
    }
    checked
}

/// `30/1m`, `10/s`: a number of calls in a time.
fn per_time(reader: &mut Reader<'_>, field: &Field) -> Option<(usize, Duration)> {
    let text = field.text(reader)?;
    let parsed = parse(&text);
    if parsed.is_none() {
        let help = format!("write {}, for instance", field.example(reader, "\"30/1m\""));
        field.error(reader, format!("expected a number of calls in a time, found \"{text}\""), help);
    }
    parsed
}

fn parse(text: &str) -> Option<(usize, Duration)> {
    let (count, time) = text.split_once('/')?;
    let count: i64 = count.trim().parse().ok().filter(|count| (1..=MOST).contains(count))?;
    let time = time.trim();
    let time =
        if time.starts_with(|c: char| c.is_ascii_digit()) { time.to_owned() } else { format!("1{time}") };
    let time = duration::parse(&time)
        .filter(|time| (Duration::from_millis(1)..=Duration::from_hours(24)).contains(time))?;
    Some((usize::try_from(count).ok()?, time))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_of_calls_in_a_time_is_read() {
        let seconds = |count, seconds| Some((count, Duration::from_secs(seconds)));
        for (text, expected) in [
            ("30/1m", seconds(30, 60)),
            ("10/s", seconds(10, 1)),
            (" 5 / 2 h ", seconds(5, 7200)),
            ("0/s", None),
            ("10", None),
            ("ten/s", None),
            ("10/fortnight", None),
            ("10/0s", None),
        ] {
            assert_eq!(parse(text), expected, "{text}");
        }
    }
}
