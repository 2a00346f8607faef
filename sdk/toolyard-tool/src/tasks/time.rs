//! Moments as the protocol writes them: `2026-07-28T12:00:00.000Z`.

use std::time::{SystemTime, UNIX_EPOCH};

use toolyard_proto::calendar::date;

pub(super) fn timestamp(time: SystemTime) -> String {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    let seconds = i64::try_from(since.as_secs()).unwrap_or(i64::MAX);
    let (year, month, day) = date(seconds / 86_400);
    let hour = seconds / 3600 % 24;
    let minute = seconds / 60 % 60;
    let second = seconds % 60;
    let millis = since.subsec_millis();
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millis:03}Z")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn moments_are_written_as_the_protocol_wants() {
        let at = |seconds| timestamp(UNIX_EPOCH + Duration::from_millis(seconds));
        assert_eq!(at(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(at(951_827_696_789), "2000-02-29T12:34:56.789Z");
        assert_eq!(at(1_785_196_800_000), "2026-07-28T00:00:00.000Z");
    }
}
