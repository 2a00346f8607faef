//! The civil calendar, in days since 1970. Both ways count in years that begin in March, so that leap days
//! come last.

/// 400 years, after which the calendar repeats itself.
const ERA: i64 = 146_097;
/// From the first of March of the year 0 to 1970.
const EPOCH: i64 = 719_468;

/// Year, month and day.
///
/// ```
/// assert_eq!(toolyard_proto::calendar::date(11_016), (2000, 2, 29));
/// ```
pub fn date(days: i64) -> (i64, i64, i64) {
    let days = days + EPOCH;
    let (era, of_era) = (days.div_euclid(ERA), days.rem_euclid(ERA));
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

/// The day of a date.
///
/// ```
/// assert_eq!(toolyard_proto::calendar::days(2000, 2, 29), 11_016);
/// ```
pub fn days(year: i64, month: i64, day: i64) -> i64 {
    let (year, from_march) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    era * ERA + of_era * 365 + of_era / 4 - of_era / 100 + (153 * from_march + 2) / 5 + day - 1 - EPOCH
}

/// A moment as RFC 3339 writes it, given as the time since 1970.
///
/// ```
/// let moment = std::time::Duration::from_millis(951_786_061_250);
/// assert_eq!(toolyard_proto::calendar::rfc3339(moment), "2000-02-29T01:01:01.250Z");
/// ```
pub fn rfc3339(since_1970: std::time::Duration) -> String {
    let (seconds, millis) = (since_1970.as_secs(), since_1970.subsec_millis());
    let (year, month, day) = date(i64::try_from(seconds / 86_400).unwrap_or_default());
    let (hour, minute, second) = (seconds / 3_600 % 24, seconds / 60 % 60, seconds % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millis:03}Z")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn days_have_dates() {
        for (day, expected) in [
            (0, (1970, 1, 1)),
            (-1, (1969, 12, 31)),
            (11_016, (2000, 2, 29)),
            (11_017, (2000, 3, 1)),
            (20_661, (2026, 7, 27)),
        ] {
            assert_eq!(date(day), expected);
        }
    }

    proptest! {
        #[test]
        fn a_date_leads_back_to_its_day(day in -4_000_000_i64..4_000_000) {
            let (year, month, of_month) = date(day);
            prop_assert_eq!(days(year, month, of_month), day);
        }
    }
}
