//! Times as people write them: `30`, `"30s"`, `"5m"`, `"1h"`, `"500ms"`.

use std::time::Duration;

use super::problem::ProblemKind;
use super::reader::{Field, Reader};
use super::tree::Value;

impl Field {
    /// A time of at least one second and at most `most`.
    pub(crate) fn duration(&self, reader: &mut Reader<'_>, most: Duration) -> Option<Duration> {
        self.duration_within(reader, Duration::from_secs(1), most)
    }

    /// A time of at least `least` and at most `most`.
    pub(crate) fn duration_within(
        &self,
        reader: &mut Reader<'_>,
        least: Duration,
        most: Duration,
    ) -> Option<Duration> {
        let duration = match self.value() {
            Value::Integer(seconds) => u64::try_from(*seconds).ok().map(Duration::from_secs),
            Value::Fraction(seconds) => Duration::try_from_secs_f64(*seconds).ok(),
            Value::Text(text) => parse(text),
            _ => None,
        };
        let range = format!("from {} to {}", shown(least), shown(most));
        let found = match self.value() {
            Value::Integer(number) => number.to_string(),
            Value::Fraction(number) => number.to_string(),
            Value::Text(text) => format!("\"{text}\""),
            other => other.kind().to_owned(),
        };
        if duration.is_none_or(|duration| duration < least || duration > most) {
            let message = format!("expected a time {range}, found {found}");
            let near = match self.value() {
                Value::Text(text) => in_words(text),
                _ => duration,
            };
            let instead = near.map_or(least, |near| near.clamp(least, most));
            let instead = if near.is_none() { most.min(Duration::from_secs(30)) } else { instead };
            let example = self.example(reader, &format!("\"{}\"", shown(instead)));
            let kind = match self.value() {
                Value::Integer(_) | Value::Fraction(_) | Value::Text(_) => None,
                _ => Some(ProblemKind::WrongKind),
            };
            let help = format!("write a number and its unit, such as {example}");
            reader.error_of(kind, self.at, &self.path, message, help);
            return None;
        }
        duration
    }
}

/// A time as it is written in a config.
fn shown(duration: Duration) -> String {
    let (seconds, milliseconds) = (duration.as_secs(), duration.subsec_millis());
    match seconds {
        _ if milliseconds > 0 => format!("{}ms", duration.as_millis()),
        3600.. if seconds.is_multiple_of(3600) => format!("{}h", seconds / 3600),
        60.. if seconds.is_multiple_of(60) => format!("{}m", seconds / 60),
        _ => format!("{seconds}s"),
    }
}

/// A time with its unit written out, or with a fraction: `5 minutes`, `1.5h`. Only to name what was probably meant.
fn in_words(text: &str) -> Option<Duration> {
    let text = text.trim().to_lowercase();
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let number: f64 = text[..split].parse().ok()?;
    let seconds = match text[split..].trim_start().trim_end_matches('s') {
        "m" if text.ends_with("ms") => 0.001,
        "" | "sec" | "second" => 1.0,
        "m" | "min" | "minute" => 60.0,
        "h" | "hour" => 3600.0,
        _ => return None,
    };
    Duration::try_from_secs_f64((number * seconds).round().max(1.0)).ok()
}

/// Reads a time: `30`, `30s`, `5m`, `1h`, `500ms`.
pub fn parse(text: &str) -> Option<Duration> {
    let text = text.trim();
    let split = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let number: u64 = text[..split].parse().ok()?;
    let milliseconds = match text[split..].trim_start() {
        "ms" => 1,
        "" | "s" => 1000,
        "m" => 60 * 1000,
        "h" => 3600 * 1000,
        _ => return None,
    };
    number.checked_mul(milliseconds).map(Duration::from_millis)
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn numbers_with_a_unit_are_times() {
        let check = |text: &str, seconds: Option<u64>| {
            assert_eq!(parse(text).map(|duration| duration.as_secs()), seconds, "{text}");
        };
        check("30", Some(30));
        check("30s", Some(30));
        check(" 5 m ", Some(300));
        check("1h", Some(3600));
        check("", None);
        check("s", None);
        check("-1s", None);
        check("1.5h", None);
        check("5 minutes", None);
        check("99999999999999999999h", None);
    }
}
