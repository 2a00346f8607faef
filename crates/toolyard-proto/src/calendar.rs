//! The civil calendar, in days since 1970. Both ways count in years that begin in March, so that leap days
//! come last.

/// 400 years, after which the calendar repeats itself.
const ERA: i64 = 146_097;
/// The days from the first of March of the year 0 to 1970.
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

/// A moment in the form of RFC 3339, given as the time since 1970.
///
/// ```
/// let moment = std::time::Duration::from_millis(951_786_061_250);
/// assert_eq!(toolyard_proto::calendar::rfc3339(moment), "2000-02-29T01:01:01.250Z");
/// ```
pub fn rfc3339(since_1970: std::time::Duration) -> String {
    let (seconds, millis) = (since_1970.as_secs(), since_1970.subsec_millis());
    let (year, month, day) = date(i64::try_from(seconds / 86_400).unwrap_or_default());
    let hour = seconds / 3_600 % 24;
    let minute = seconds / 60 % 60;
    let second = seconds % 60;
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millis:03}Z")
}

/// Whether a text is a moment in that form: an existing day, a time, and a zone.
///
/// ```
/// use toolyard_proto::calendar::is_rfc3339;
/// assert!(is_rfc3339("2000-02-29T23:59:59.5+01:00") && is_rfc3339("2026-07-28T00:00:00Z"));
/// assert!(!is_rfc3339("2026-07-28") && !is_rfc3339("2026-02-29T00:00:00Z") && !is_rfc3339("yesterday"));
/// ```
pub fn is_rfc3339(text: &str) -> bool {
    let Some((day, time)) = text.split_once('T') else { return false };
    let (time, zone) = match time.strip_suffix('Z') {
        Some(time) => (time, "00:00"),
        None => time.rsplit_once(['+', '-']).unwrap_or_default(),
    };
    let (whole, part) = time.split_once('.').unwrap_or((time, "0"));
    let is_part = !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let is_time = matches!(numbers(whole, ':', &[2, 2, 2]).as_deref(), Some([0..24, 0..60, 0..60]));
    let is_zone = matches!(numbers(zone, ':', &[2, 2]).as_deref(), Some([0..24, 0..60]));
    let is_day = match numbers(day, '-', &[4, 2, 2]).as_deref() {
        Some(&[year, month @ 1..13, day]) => date(days(year, month, day)) == (year, month, day),
        _ => false,
    };
    is_day && is_time && is_part && is_zone
}

/// Numbers of these many digits each.
fn numbers(text: &str, between: char, digits: &[usize]) -> Option<Vec<i64>> {
    let parts: Vec<&str> = text.split(between).collect();
    let fits = |(part, digits): (&&str, &usize)| {
        part.len() == *digits && part.bytes().all(|byte| byte.is_ascii_digit())
    };
    let all_fit = parts.len() == digits.len() && parts.iter().zip(digits).all(fits);
    all_fit.then(|| parts.iter().map(|part| part.parse().ok()).collect()).flatten()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_moment_has_a_day_a_time_and_a_zone() {
        let no = |text| assert!(!is_rfc3339(text), "{text}");
        for text in
            ["", "T", "2026-07-28", "2026-07-28T01:02:03", "2026-07-28T01:02Z", "2026-13-01T01:02:03Z"]
        {
            no(text);
        }
        for text in ["2026-07-28T24:02:03Z", "2026-07-28T01:02:03.Z", "2026-07-28T01:02:03+1:00"] {
            no(text);
        }
        for text in ["2026-07-28t01:02:03Z", "2026-07-28T01:02:03z", "+026-07-28T01:02:03Z"] {
            no(text);
        }
        assert!(is_rfc3339("2026-07-28T01:02:03.123456-11:30"));
    }

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

        #[test]
        fn what_is_written_is_read(seconds in 0..200_000_000_000_u64) {
            prop_assert!(is_rfc3339(&rfc3339(std::time::Duration::from_secs(seconds))));
        }

        #[test]
        fn whatever_is_read_has_an_answer(text in "[0-9T:.Z+-]{0,30}|.*") {
            let _ = is_rfc3339(&text);
        }
    }
}
