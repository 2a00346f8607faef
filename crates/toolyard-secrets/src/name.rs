//! Which names secrets can have: those that need no quoting in a config file or on a command line.

use crate::Error;

const LONGEST: usize = 200;
const MARKS: &str = "_-.:/@+";

pub(crate) fn check(name: &str) -> Result<(), Error> {
    let fits = |c: char| c.is_ascii_alphanumeric() || MARKS.contains(c);
    let is_valid =
        !name.is_empty() && name.len() <= LONGEST && name.chars().all(fits) && !name.starts_with('-');
    if is_valid {
        return Ok(());
    }
    let shown: String = name.chars().filter(|c| !c.is_control()).take(LONGEST).collect();
    Err(Error::Name(shown))
}
