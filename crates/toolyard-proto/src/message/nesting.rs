//! Checks of a JSON text that passes in pieces: how deep it nests, and whether it is complete.

use memchr::memchr2;

use super::MAX_NESTING;

/// Follows brackets and strings over the pieces of one JSON object.
#[derive(Debug, Default)]
pub struct Nesting {
    depth: usize,
    place: NestingPlace,
}

#[derive(Debug, Default, PartialEq, Eq)]
enum NestingPlace {
    #[default]
    Before,
    Inside,
    InString,
    /// In a string, after a backslash.
    Escaped,
    After,
}

impl Nesting {
    /// Reads the next piece; the error states what is wrong with it.
    pub fn read(&mut self, piece: &[u8]) -> Result<(), &'static str> {
        let mut at = 0;
        while at < piece.len() {
            at = match self.place {
                NestingPlace::InString => self.pass_string(piece, at),
                NestingPlace::Escaped => {
                    self.place = NestingPlace::InString;
                    at + 1
                }
                _ => {
                    self.take(piece[at])?;
                    at + 1
                }
            };
        }
        Ok(())
    }

    /// Whether all that was opened has been closed.
    pub fn is_complete(&self) -> bool {
        self.place == NestingPlace::After
    }

    fn take(&mut self, byte: u8) -> Result<(), &'static str> {
        match (byte, &self.place) {
            (b' ' | b'\t' | b'\r' | b'\n', _) => {}
            (_, NestingPlace::After) => return Err("its answer goes on after its end"),
            (b'{', _) | (b'[', NestingPlace::Inside) => {
                self.place = NestingPlace::Inside;
                self.depth += 1;
                if self.depth > MAX_NESTING {
                    return Err("its answer is nested too deep");
                }
            }
            (_, NestingPlace::Before) => return Err("its answer is not a JSON object"),
            (b'}' | b']', _) => {
                self.depth -= 1;
                if self.depth == 0 {
                    self.place = NestingPlace::After;
                }
            }
            (b'"', _) => self.place = NestingPlace::InString,
            _ => {}
        }
        Ok(())
    }

    /// Goes on inside a string; gives where to read next.
    fn pass_string(&mut self, piece: &[u8], at: usize) -> usize {
        let Some(step) = memchr2(b'"', b'\\', &piece[at..]) else { return piece.len() };
        self.place = if piece[at + step] == b'"' { NestingPlace::Inside } else { NestingPlace::Escaped };
        at + step + 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: Result<bool, &str>) {
        for size in [1, 2, 3, 1000] {
            let mut nesting = Nesting::default();
            let read = text.as_bytes().chunks(size).try_for_each(|piece| nesting.read(piece));
            assert_eq!(read.map(|()| nesting.is_complete()), expected, "{text} by {size}");
        }
    }

    #[test]
    fn a_text_is_followed_however_it_is_cut() {
        check(r#" {"a":[1,{"b":"}]\"\\"}],"c":"\""} "#, Ok(true));
        check(r#"{"a":[1,{"b":"}"#, Ok(false));
        check(r#"{"a":1"#, Ok(false));
        check("{}{}", Err("its answer goes on after its end"));
        check("<p>", Err("its answer is not a JSON object"));
        check(&format!("{{\"a\":{}", "[".repeat(MAX_NESTING)), Err("its answer is nested too deep"));
    }
}
