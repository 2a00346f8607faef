//! Dates and times of day, from seconds since 1970. The caller supplies the offset of a time zone.

use std::fmt;

use toolyard_tool::calendar::date;

const DAY: i64 = 86_400;
const WEEKDAYS: [&str; 7] = ["Thursday", "Friday", "Saturday", "Sunday", "Monday", "Tuesday", "Wednesday"];

/// A moment as clocks at some offset show it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Moment {
    seconds: i64,
    offset: Offset,
}

/// How far ahead of UTC clocks are, in minutes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Offset(i64);

impl Offset {
    /// Parses `+02:00`, `-0330`, `+2` or `Z`.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        if text.eq_ignore_ascii_case("z") {
            return Some(Self(0));
        }
        let sign = if text.starts_with('-') { -1 } else { 1 };
        let digits = text.strip_prefix(['+', '-'])?.replace(':', "");
        if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        let (hours, minutes): (i64, i64) = match digits.len() {
            1 | 2 => (digits.parse().ok()?, 0),
            4 => (digits[..2].parse().ok()?, digits[2..].parse().ok()?),
            _ => return None,
        };
        // No place on Earth is further ahead or behind.
        (hours <= 14 && minutes < 60).then_some(Self(sign * (hours * 60 + minutes)))
    }
}

impl Moment {
    pub(crate) fn new(seconds: i64, offset: Offset) -> Self {
        Self { seconds, offset }
    }

    pub(crate) fn weekday(self) -> &'static str {
        usize::try_from(self.days().rem_euclid(7)).ok().and_then(|day| WEEKDAYS.get(day)).unwrap_or(&"")
    }

    fn shown(self) -> i64 {
        self.seconds + self.offset.0 * 60
    }

    fn days(self) -> i64 {
        self.shown().div_euclid(DAY)
    }
}

/// RFC 3339.
impl fmt::Display for Moment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (year, month, day) = date(self.days());
        let rest = self.shown().rem_euclid(DAY);
        let hour = rest / 3600;
        let minute = rest / 60 % 60;
        let second = rest % 60;
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}{}", self.offset)
    }
}

impl fmt::Display for Offset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0 => f.write_str("Z"),
            minutes => {
                let sign = if minutes < 0 { '-' } else { '+' };
                write!(f, "{sign}{:02}:{:02}", minutes.abs() / 60, minutes.abs() % 60)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_written_as_rfc_3339() {
        let check = |seconds: i64, offset: &str, text: &str, weekday: &str| {
            let moment = Moment::new(seconds, Offset::parse(offset).unwrap());
            assert_eq!((moment.to_string().as_str(), moment.weekday()), (text, weekday));
        };
        check(0, "Z", "1970-01-01T00:00:00Z", "Thursday");
        check(-1, "Z", "1969-12-31T23:59:59Z", "Wednesday");
        check(951_827_696, "+00:00", "2000-02-29T12:34:56Z", "Tuesday");
        check(1_785_196_799, "+05:30", "2026-07-28T05:29:59+05:30", "Tuesday");
        check(1_785_196_799, "-3", "2026-07-27T20:59:59-03:00", "Monday");
    }

    #[test]
    fn offsets_are_read_as_people_write_them() {
        for (text, shown) in [("+2", "+02:00"), ("-0330", "-03:30"), ("z", "Z"), ("+14:00", "+14:00")] {
            assert_eq!(
                Offset::parse(text).map(|offset| offset.to_string()).as_deref(),
                Some(shown),
                "{text}"
            );
        }
        for text in ["", "2", "+15", "+02:60", "Berlin", "+é", "+1234567"] {
            assert_eq!(Offset::parse(text), None, "{text}");
        }
    }
}
