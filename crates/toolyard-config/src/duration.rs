//! Times as people write them: `30`, `"30s"`, `"5m"`, `"1h"`.

use std::time::Duration;

use super::reader::{Field, Reader};
use super::tree::Value;

impl Field {
    /// A time of at least one second and at most `most`.
    pub(crate) fn duration(&self, reader: &mut Reader<'_>, most: Duration) -> Option<Duration> {
        let for_instance = if most < Duration::from_mins(5) { "\"30s\"" } else { "\"5m\"" };
        let duration = match self.value() {
            Value::Integer(seconds) => u64::try_from(*seconds).ok().map(Duration::from_secs),
            Value::Text(text) => parse(text),
            _ => None,
        };
        let Some(duration) = duration else {
            self.error(
                reader,
                "expected a time: whole seconds, or a string such as \"30s\", \"5m\" or \"1h\"",
                format!("write {}", self.example(reader, for_instance)),
            );
            return None;
        };
        if duration < Duration::from_secs(1) || duration > most {
            let message = format!("expected a time from 1 second to {} seconds", most.as_secs());
            self.error(
                reader,
                message,
                format!("write {}, for instance", self.example(reader, for_instance)),
            );
            return None;
        }
        Some(duration)
    }
}

pub(crate) fn parse(text: &str) -> Option<Duration> {
    let text = text.trim();
    let split = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let number: u64 = text[..split].parse().ok()?;
    let seconds = match text[split..].trim_start() {
        "" | "s" => 1,
        "m" => 60,
        "h" => 3600,
        _ => return None,
    };
    number.checked_mul(seconds).map(Duration::from_secs)
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
