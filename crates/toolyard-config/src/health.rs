//! `[health]`: how apps, instances and servers with `ping = true` are pinged.

use std::time::Duration;

use toolyard_core::plan::Pings;

use super::reader::{Field, Reader};

const LONGEST: Duration = Duration::from_hours(1);
const MOST_MISSES: i64 = 100;

pub(crate) fn read(field: Field, reader: &mut Reader<'_>) -> Pings {
    let usual = Pings::default();
    let Some(mut section) = field.section(reader) else { return usual };
    let regular = section.take("ping").and_then(|field| field.flag(reader));
    let mut time = |key| section.take(key).and_then(|field| field.duration(reader, LONGEST));
    let (every, wait) = (time("interval"), time("timeout"));
    let misses = section.take("misses").and_then(|field| read_misses(reader, &field));
    section.finish(reader);
    Pings {
        regular: regular.unwrap_or(usual.regular),
        every: every.unwrap_or(usual.every),
        wait: wait.unwrap_or(usual.wait),
        misses: misses.unwrap_or(usual.misses),
    }
}

fn read_misses(reader: &mut Reader<'_>, field: &Field) -> Option<u32> {
    let number = field.integer(reader)?;
    let misses = u32::try_from(number).ok().filter(|_| (1..=MOST_MISSES).contains(&number));
    if misses.is_none() {
        let message = format!("expected a number from 1 to {MOST_MISSES}, found {number}");
        field.error(reader, message, "the default is 3");
    }
    misses
}
