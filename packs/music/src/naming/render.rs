//! Renders a path from values.

use std::collections::BTreeMap;

use toolyard_tool::ToolError;

use super::parse::wrong;
use super::{Piece, Placeholder, Template};

/// The longest name that common file systems take, in bytes.
const LONGEST_NAME: usize = 255;

/// Values by field.
pub(crate) type Values = BTreeMap<String, String>;

impl Template {
    /// The path for these values. With `sanitise`, characters that do not belong in a name are replaced.
    pub(crate) fn render(&self, values: &Values, sanitise: bool) -> Result<String, ToolError> {
        let parts: Result<Vec<String>, ToolError> =
            self.parts.iter().map(|part| render_part(part, values, sanitise)).collect();
        let path = parts?.join("/");
        check(&path)?;
        Ok(path)
    }
}

fn render_part(part: &[Piece], values: &Values, sanitise: bool) -> Result<String, ToolError> {
    let mut name = String::new();
    for piece in part {
        match piece {
            Piece::Literal(text) => name.push_str(text),
            Piece::Field(field) => name.push_str(&value(field, values, sanitise)?),
        }
    }
    Ok(if sanitise { without_bad_ends(&name) } else { name })
}

fn value(field: &Placeholder, values: &Values, sanitise: bool) -> Result<String, ToolError> {
    let clean = |text: &str| if sanitise { sanitised(text) } else { text.to_owned() };
    let given = values.get(&field.name).map(|text| clean(text)).filter(|text| !text.is_empty());
    let Some(given) = given else {
        return field.fallback.clone().ok_or_else(|| {
            ToolError::new(format!("there is no value for `{}`", field.name))
                .hint(format!("write a fallback, such as `{{{}|unknown}}`, or give a value", field.name))
        });
    };
    let Some(digits) = field.digits else { return Ok(given) };
    // Some tags hold `3/12`; sanitised, that is `3-12`.
    let number = given.split(['/', '-']).next().unwrap_or_default().trim();
    match number.parse::<u64>() {
        Ok(number) => Ok(format!("{number:0digits$}")),
        Err(_) => {
            Err(ToolError::new(format!("`{}` must be a number of 0 or more, not {given:?}", field.name))
                .hint("give a number, or leave out the `:02d`"))
        }
    }
}

/// A value as part of a name: `AC/DC` becomes `AC-DC`.
pub(crate) fn sanitised(text: &str) -> String {
    let replaced: String =
        text.chars().map(|c| if c.is_control() || r#"/\:*?"<>|"#.contains(c) { '-' } else { c }).collect();
    without_bad_ends(&replaced)
}

/// Some systems cannot have names that end with dots or spaces, and `..` is not a name at all.
fn without_bad_ends(text: &str) -> String {
    text.trim().trim_end_matches(|c: char| c == '.' || c.is_whitespace()).to_owned()
}

fn check(path: &str) -> Result<(), ToolError> {
    if path.starts_with('/') {
        return Err(wrong("the path would be absolute"));
    }
    for name in path.split('/') {
        match name {
            "" => return Err(wrong("a name in the path would be empty")),
            "." | ".." => return Err(wrong("a value must not be `.` or `..`")),
            _ if name.contains('\0') => return Err(wrong("a name in the path would hold a NUL character")),
            _ if name.len() > LONGEST_NAME => {
                return Err(wrong("a name in the path would be longer than 255 bytes"));
            }
            _ => {}
        }
    }
    Ok(())
}
