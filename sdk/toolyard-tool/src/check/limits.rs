//! The limits of Rust's integers: a number that does not fit the type of its field is reported with the field's name,
//! like any other problem, before serde sees it.
//!
//! Limits of up to 32 bits are published, too. Those of 64 bits are not: clients round them, and none comes near.

use std::cmp::Ordering;

use serde_json::{Map, Number, Value};

/// The name that schemars gives each type, with its least and its greatest number.
const LIMITS: [(&str, i128, i128); 10] = [
    ("int8", i8::MIN as i128, i8::MAX as i128),
    ("int16", i16::MIN as i128, i16::MAX as i128),
    ("int32", i32::MIN as i128, i32::MAX as i128),
    ("int64", i64::MIN as i128, i64::MAX as i128),
    ("int", isize::MIN as i128, isize::MAX as i128),
    ("uint8", 0, u8::MAX as i128),
    ("uint16", 0, u16::MAX as i128),
    ("uint32", 0, u32::MAX as i128),
    ("uint64", 0, u64::MAX as i128),
    ("uint", 0, usize::MAX as i128),
];

const NAMES: [&str; 2] = ["minimum", "maximum"];

/// Narrows the range of an integer to what its type holds.
pub(super) fn narrow(keywords: &mut Map<String, Value>) {
    for (name, beyond) in NAMES.into_iter().zip([Ordering::Less, Ordering::Greater]) {
        let Some(limit) = limit(keywords, name).and_then(Number::from_i128).map(Value::Number) else {
            return;
        };
        let declared = keywords.get(name);
        if declared.is_none_or(|declared| compare(declared, &limit) == Some(beyond)) {
            keywords.insert(name.into(), limit);
        }
    }
}

/// Whether the `minimum` or `maximum` of a schema is only the limit of its type.
pub(crate) fn is_of_type(keywords: &Map<String, Value>, name: &str) -> bool {
    limit(keywords, name).is_some_and(|limit| keywords.get(name).and_then(whole) == Some(limit))
}

/// Whether a limit is too large to be worth mentioning.
pub(super) fn is_silent(keywords: &Map<String, Value>, name: &str) -> bool {
    is_of_type(keywords, name) && limit(keywords, name) != Some(0)
}

/// Removes from a schema what only Rust needs.
pub(super) fn publish(keywords: &mut Map<String, Value>) {
    for name in NAMES {
        let is_huge = limit(keywords, name).is_some_and(|limit| limit.unsigned_abs() > u32::MAX.into());
        if is_huge && is_silent(keywords, name) {
            keywords.remove(name);
        }
    }
    remove_format(keywords);
}

/// Removes formats such as `uint32`: they are no standard, and some models' interfaces refuse them.
pub(crate) fn remove_format(keywords: &mut Map<String, Value>) {
    if keywords.get("format").is_some_and(is_of_number) {
        keywords.remove("format");
    }
}

/// Whether a format is the type of a number.
pub(crate) fn is_of_number(format: &Value) -> bool {
    let is_known =
        |format: &str| format.starts_with("int") || format.starts_with("uint") || FRACTIONS.contains(&format);
    format.as_str().is_some_and(is_known)
}

const FRACTIONS: [&str; 3] = ["float", "double", "decimal"];

fn limit(keywords: &Map<String, Value>, name: &str) -> Option<i128> {
    let format = keywords.get("format")?.as_str()?;
    let (_, least, most) = LIMITS.into_iter().find(|(known, ..)| *known == format)?;
    Some(if name == "minimum" { least } else { most })
}

/// Compares numbers exactly, where `u64::MAX` and the next power of two are not the same.
pub(super) fn compare(one: &Value, other: &Value) -> Option<Ordering> {
    match (whole(one), whole(other)) {
        (Some(one), Some(other)) => Some(one.cmp(&other)),
        _ => one.as_f64()?.partial_cmp(&other.as_f64()?),
    }
}

/// A number without a fraction, however it is written.
#[expect(clippy::cast_possible_truncation, reason = "guarded by the range check")]
pub(super) fn whole(value: &Value) -> Option<i128> {
    let number = value.as_number()?;
    let fraction = || number.as_f64().filter(|number| number.fract() == 0.0 && number.abs() < 1e38);
    number.as_i128().or_else(|| fraction().map(|number| number as i128))
}
