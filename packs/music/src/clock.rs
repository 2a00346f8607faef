//! Moments as texts.

const DAY: u64 = 86_400;

/// RFC 3339, from seconds since 1970.
pub(crate) fn rfc3339(seconds: u64) -> String {
    let (year, month, day) = date(seconds / DAY);
    let rest = seconds % DAY;
    format!("{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z", rest / 3600, rest / 60 % 60, rest % 60)
}

/// Counted in years that begin in March, so that leap days come last.
fn date(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    (year_of_era + era * 400 + u64::from(month <= 2), month, day)
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
