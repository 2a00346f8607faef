//! A definition in the form that strict clients accept. Official SDKs reject a whole list because of one entry that
//! violates the protocol, so where the entries of many servers share one list, each must be valid.
//!
//! What is valid is kept to the byte. For an invalid value, the nearest enclosing member that
//! an entry can do without is removed; if there is none, the entry is removed. A property's schema that
//! is `true` or `false` is written as the object that means the same.

mod headers;
mod shape;
#[cfg(test)]
mod tests;

use std::fmt;

use crate::Raw;
use crate::calendar::is_rfc3339;
use crate::message::{MAX_NESTING, nests_too_deep};
use crate::splice::{elements, members, replace_all};
use shape::{Field, Need, Shape};

/// How much of a server's own text is repeated.
const WORDS: usize = 60;

/// How many faults of one definition are reported.
const MOST_FAULTS: usize = 16;

/// A fault of a definition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DefinitionFault {
    /// The member that was removed because of it; empty if the whole entry was.
    pub without: String,
    /// The place of the fault, and what is wrong there.
    at: String,
    wrong: String,
}

/// A definition that was checked.
#[derive(Clone, Debug)]
pub struct Sanitized {
    /// The entry in a form that clients accept; `None` if there is none.
    pub entry: Option<Raw>,
    /// The faults that were found. A member that is null counts as absent, and is not reported.
    pub faults: Vec<DefinitionFault>,
    /// Whether it is left out everywhere, also in the view of its upstream alone: clients could not call it, or could
    /// not read the list.
    pub is_unusable: bool,
}

pub fn tool(raw: &Raw) -> Sanitized {
    let sanitized = looked_at(&shape::TOOL, raw);
    if sanitized.is_unusable {
        return sanitized;
    }
    match headers::check(&mut Look::default(), raw) {
        Ok(_) => sanitized,
        Err(fault) => Sanitized::unusable(fault),
    }
}

pub fn prompt(raw: &Raw) -> Sanitized {
    looked_at(&shape::PROMPT, raw)
}

pub fn resource(raw: &Raw) -> Sanitized {
    looked_at(&shape::RESOURCE, raw)
}

pub fn template(raw: &Raw) -> Sanitized {
    looked_at(&shape::TEMPLATE, raw)
}

impl Sanitized {
    fn unusable(fault: DefinitionFault) -> Self {
        Self { entry: None, faults: vec![fault], is_unusable: true }
    }
}

fn looked_at(shape: &Shape, raw: &Raw) -> Sanitized {
    let mut look = Look::default();
    if nests_too_deep(raw.as_bytes()) {
        return Sanitized::unusable(look.fault(format!("nests more than {MAX_NESTING} levels deep")));
    }
    match look.at(shape, raw) {
        Ok(changed) => {
            let entry = Some(changed.unwrap_or_else(|| raw.clone()));
            Sanitized { entry, faults: look.faults, is_unusable: false }
        }
        Err(fault) => Sanitized { entry: None, faults: vec![fault], is_unusable: false },
    }
}

impl fmt::Display for DefinitionFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = if self.at.is_empty() { "it".to_owned() } else { format!("`{}`", self.at) };
        write!(f, "{at} {}", self.wrong)
    }
}

/// The current position in a definition, and what was found so far.
#[derive(Default)]
struct Look {
    path: Vec<String>,
    faults: Vec<DefinitionFault>,
}

/// The value in its new form, if it needs one.
type Looked = Result<Option<Raw>, DefinitionFault>;

impl Look {
    fn at(&mut self, shape: &Shape, raw: &Raw) -> Looked {
        let first = raw.as_bytes().first().copied();
        match (shape, first) {
            (Shape::Text, Some(b'"'))
            | (Shape::Number, Some(b'-' | b'0'..=b'9'))
            | (Shape::Flag, Some(b't' | b'f'))
            | (Shape::Schema, Some(b'{')) => Ok(None),
            (Shape::Schema, Some(b't')) => Ok(Some(Raw::empty_object())),
            (Shape::Schema, Some(b'f')) => Ok(Some(serde_json::json!({ "not": {} }).into())),
            (Shape::Word(words), Some(b'"')) if words.contains(&&*raw.text().unwrap_or_default()) => Ok(None),
            (Shape::Share, _) if raw.read().is_ok_and(|share: f64| (0.0..=1.0).contains(&share)) => Ok(None),
            (Shape::Moment, _) if raw.text().is_some_and(|text| is_rfc3339(&text)) => Ok(None),
            (Shape::List(each), Some(b'[')) => self.list(each, raw),
            (Shape::Map(each), Some(b'{')) => self.map(each, raw),
            (Shape::Object(fields), Some(b'{')) => self.object(fields, raw),
            _ => Err(self.fault(shape.is_not())),
        }
    }

    fn list(&mut self, each: &Shape, raw: &Raw) -> Looked {
        let mut edits = Vec::new();
        for (place, range) in elements(raw.as_bytes()).enumerate() {
            self.path.push(format!("[{place}]"));
            let changed = self.at(each, &raw.slice(range.clone()))?;
            self.path.pop();
            edits.extend(changed.map(|new| (range, new)));
        }
        Ok(edited(raw, &edits))
    }

    fn map(&mut self, each: &Shape, raw: &Raw) -> Looked {
        let mut edits = Vec::new();
        for member in members(raw.as_bytes()) {
            self.path.push(named(&String::from_utf8_lossy(&member.key.text(raw.as_bytes()))));
            let changed = self.at(each, &raw.slice(member.value.clone()))?;
            self.path.pop();
            edits.extend(changed.map(|new| (member.value, new)));
        }
        Ok(edited(raw, &edits))
    }

    fn object(&mut self, fields: &[Field], raw: &Raw) -> Looked {
        let mut edits = Vec::new();
        let mut gone = Vec::new();
        let mut seen = Vec::new();
        for member in members(raw.as_bytes()) {
            let Some(field) = fields.iter().find(|field| member.is(raw.as_bytes(), field.name)) else {
                continue;
            };
            let value = raw.slice(member.value.clone());
            let is_known = |names: &[&str]| names.contains(&field.name);
            if !is_known(&seen) {
                seen.push(field.name);
            }
            let depth = self.path.len();
            self.path.push(named(field.name));
            match self.at(&field.shape, &value) {
                Ok(changed) => edits.extend(changed.map(|new| (member.value, new))),
                // A removed member is removed at every position: a definition may repeat it without end.
                Err(_) if field.need != Need::Must && is_known(&gone) => {}
                Err(_) if value.is_null() && field.need != Need::Must => gone.push(field.name),
                Err(fault) if field.need == Need::May => {
                    self.path.truncate(depth + 1);
                    self.note(fault);
                    gone.push(field.name);
                }
                Err(fault) => return Err(fault),
            }
            self.path.truncate(depth);
        }
        let mut out = edited(raw, &edits);
        if !gone.is_empty() {
            out = Some(out.as_ref().unwrap_or(raw).without(&gone));
        }
        for field in fields.iter().filter(|field| !seen.contains(&field.name) || gone.contains(&field.name)) {
            match field.need {
                Need::Must => {
                    self.path.push(named(field.name));
                    return Err(self.fault("is missing".to_owned()));
                }
                Need::Always(value) => {
                    out = Some(out.as_ref().unwrap_or(raw).with(field.name, &Raw::from_serialize(&value)));
                }
                Need::May | Need::Right => {}
            }
        }
        Ok(out)
    }

    /// Records a fault for the current member.
    fn note(&mut self, fault: DefinitionFault) {
        if self.faults.len() < MOST_FAULTS {
            self.faults.push(DefinitionFault { without: self.path(), ..fault });
        }
    }

    fn fault(&self, wrong: String) -> DefinitionFault {
        DefinitionFault { without: String::new(), at: self.path(), wrong }
    }

    fn path(&self) -> String {
        self.path.concat().trim_start_matches('.').to_owned()
    }
}

fn edited(raw: &Raw, edits: &[(std::ops::Range<usize>, Raw)]) -> Option<Raw> {
    let edits: Vec<(_, &[u8])> = edits.iter().map(|(range, new)| (range.clone(), new.as_bytes())).collect();
    (!edits.is_empty()).then(|| Raw::assembled(replace_all(raw.as_bytes(), &edits)))
}

/// A step of a path. The name may be a server's own, so it is kept short and on one line.
fn named(name: &str) -> String {
    format!(".{}", words(name))
}

/// A server's own text, shortened and on one line, to be repeated to people.
pub fn words(text: &str) -> String {
    let short: String = text.chars().take(WORDS).flat_map(char::escape_debug).collect();
    if text.chars().nth(WORDS).is_some() { format!("{short}…") } else { short }
}
