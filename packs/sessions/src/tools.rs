//! The tools that clients call.

pub(crate) mod blame;
pub(crate) mod list;
pub(crate) mod read;
pub(crate) mod search;
pub(crate) mod skills;

use std::time::{SystemTime, UNIX_EPOCH};

use toolyard_tool::calendar::date;

/// An answer with a text of its own.
pub(crate) use toolyard_tool::WithText;

const DAY: i64 = 86_400;

/// RFC 3339, to the second.
pub(crate) fn moment(time: SystemTime) -> String {
    let seconds = time.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let seconds = i64::try_from(seconds).unwrap_or(i64::MAX);
    let (year, month, day) = date(seconds / DAY);
    let rest = seconds % DAY;
    format!("{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z", rest / 3600, rest / 60 % 60, rest % 60)
}

/// The text in one line.
pub(crate) fn in_one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
