//! The time to wait that a server asks for.

use std::time::{Duration, SystemTime};

use http::HeaderMap;
use http::header::{DATE, HeaderName, RETRY_AFTER};

/// The wait that `Retry-After` asks for, in seconds or as a date, relative to the date of the answer.
pub fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = |name: HeaderName| headers.get(name).and_then(|value| value.to_str().ok()).map(str::trim);
    let date = |text: &str| httpdate::parse_http_date(text).ok();
    let asked = text(RETRY_AFTER)?;
    if let Ok(seconds) = asked.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let answered = text(DATE).and_then(date).unwrap_or_else(SystemTime::now);
    Some(date(asked)?.duration_since(answered).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_to_wait_is_in_seconds_or_until_a_date() {
        let wait = |headers: &[(HeaderName, &'static str)]| {
            let headers = headers.iter().map(|(name, value)| (name.clone(), value.parse().unwrap()));
            retry_after(&headers.collect())
        };
        let answered = (DATE, "Wed, 18 Nov 2026 10:00:00 GMT");
        assert_eq!(wait(&[(RETRY_AFTER, "17")]), Some(Duration::from_secs(17)));
        let later = (RETRY_AFTER, "Wed, 18 Nov 2026 10:01:30 GMT");
        assert_eq!(wait(&[answered.clone(), later]), Some(Duration::from_secs(90)));
        let earlier = (RETRY_AFTER, "Wed, 18 Nov 2026 09:00:00 GMT");
        assert_eq!(wait(&[answered.clone(), earlier]), Some(Duration::ZERO));
        let long_ago = (RETRY_AFTER, "Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(wait(&[long_ago]), Some(Duration::ZERO), "without a date, the own clock counts");
        assert_eq!((wait(&[answered.clone(), (RETRY_AFTER, "soon")]), wait(&[answered])), (None, None));
    }
}
