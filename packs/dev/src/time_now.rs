//! `time_now`: what time it is, which no model knows.

use std::time::{SystemTime, UNIX_EPOCH};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use toolyard_tool::{Problems, WithText, tool};

use crate::clock::{Moment, Offset};

#[derive(Deserialize, JsonSchema)]
pub(crate) struct Wish {
    /// Offset from UTC in which to show the time, such as `+02:00` or `-03:30`; UTC if not given.
    offset: Option<String>,
}

#[derive(Serialize, JsonSchema)]
pub(crate) struct Now {
    /// RFC 3339, at the offset that was asked for.
    time: String,
    weekday: &'static str,
    /// Seconds since 1970-01-01 in UTC.
    unix: i64,
}

fn is_offset(wish: &Wish, problems: &mut Problems) {
    if let Some(offset) = wish.offset.as_deref().filter(|offset| Offset::parse(offset).is_none()) {
        problems.add("offset", format!("must be an offset from UTC such as +02:00, not {offset:?}"));
    }
}

/// Returns the current date, time and weekday.
#[tool(read_only, check = is_offset, rule = "`offset` must be an offset from UTC, such as +02:00.")]
pub(crate) async fn time_now(wish: Wish) -> WithText<Now> {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let unix = i64::try_from(since.as_secs()).unwrap_or(i64::MAX);
    let moment = Moment::new(unix, wish.offset.as_deref().and_then(Offset::parse).unwrap_or_default());
    let (time, weekday) = (moment.to_string(), moment.weekday());
    let text = format!("{weekday}, {time}");
    WithText::new(Now { time, weekday, unix }, text)
}
