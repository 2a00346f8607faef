//! Moments as texts.

use toolyard_tool::calendar::date;

const DAY: i64 = 86_400;

/// RFC 3339, from seconds since 1970.
pub(crate) fn rfc3339(seconds: u64) -> String {
    let seconds = i64::try_from(seconds).unwrap_or(i64::MAX);
    let (year, month, day) = date(seconds / DAY);
    let rest = seconds % DAY;
    format!("{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z", rest / 3600, rest / 60 % 60, rest % 60)
}

#[cfg(test)]
mod tests {
    #[test]
    fn moments_are_written_as_rfc_3339() {
        let check = |seconds, text: &str| assert_eq!(super::rfc3339(seconds), text);
        check(0, "1970-01-01T00:00:00Z");
        check(951_827_696, "2000-02-29T12:34:56Z");
        check(1_785_196_799, "2026-07-27T23:59:59Z");
    }
}
