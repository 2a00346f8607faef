//! Reads the arguments in a client's message into the argument struct of a function.

use std::panic::{AssertUnwindSafe, catch_unwind};

use schemars::JsonSchema;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use serde_path_to_error::Segment;
use toolyard_proto::Raw;

use crate::check::{Checker, cut, limits};
use crate::{Problems, ToolError, schema};

/// The arguments of a function: a struct that derives `Deserialize` and `JsonSchema`.
///
/// Its doc comments describe the fields, `#[serde(default)]` makes one optional, and schemars' own
/// attributes (`range`, `length`, `regex`) are checked before the function is called.
///
/// ```
/// use toolyard_tool::{Arguments, schemars::JsonSchema};
///
/// /// It implements `Arguments` by what it derives.
/// #[derive(serde::Deserialize, JsonSchema)]
/// struct Search {
///     /// What to look for.
///     #[schemars(length(min = 1))]
///     query: String,
///     /// How many to show.
///     #[serde(default)]
///     limit: Option<u32>,
/// }
///
/// fn takes(_: impl Arguments) {}
/// takes(Search { query: "a".into(), limit: None });
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be the arguments of a tool",
    label = "not an argument struct",
    note = "derive `serde::Deserialize` and `schemars::JsonSchema` for it"
)]
pub trait Arguments: DeserializeOwned + JsonSchema + Send + 'static {}

impl<T: DeserializeOwned + JsonSchema + Send + 'static> Arguments for T {}

/// Reads arguments as a call of a tool does: numbers are clamped, then the schema of `A` and `check` are applied.
///
/// For a tool that runs the functions of other tools, such as one that repeats recorded calls.
///
/// ```
/// use serde_json::json;
/// use toolyard_tool::{clamp, read_arguments, schemars::JsonSchema};
///
/// #[derive(serde::Deserialize, JsonSchema)]
/// struct Wait {
///     /// How long to wait, in seconds.
///     #[schemars(range(max = 60), transform = clamp)]
///     seconds: u64,
/// }
///
/// let wait: Wait = read_arguments(json!({ "seconds": 3600 }), None).unwrap();
/// assert_eq!(wait.seconds, 60);
/// assert!(read_arguments::<Wait>(json!({ "seconds": "long" }), None).is_err());
/// ```
pub fn read_arguments<A: Arguments>(
    arguments: Value,
    check: Option<fn(&A, &mut Problems)>,
) -> Result<A, ToolError> {
    let given = if arguments.is_null() { Value::Object(Map::new()) } else { arguments };
    Reader::new(std::any::type_name::<A>(), check).accept(given)
}

/// The arguments of a function that has none.
#[doc(hidden)]
#[derive(Debug, Deserialize, JsonSchema)]
pub struct NoArguments {}

/// Checks that go beyond a schema, such as that one field must not exceed another.
#[doc(hidden)]
pub type Check<A> = fn(&A, &mut Problems);

/// Messages of serde are cut at this many characters.
const LONGEST: usize = 300;

/// Reads and checks values of `A` by its schema.
pub(crate) struct Reader<A> {
    checker: Checker,
    check: Option<Check<A>>,
    /// Deserialization alone finds every problem.
    is_plain: bool,
}

impl<A: Arguments> Reader<A> {
    /// Panics if `A` is not a struct: arguments have names.
    pub(crate) fn new(owner: &str, check: Option<Check<A>>) -> Self {
        let mut schema = schema::input::<A>();
        assert!(
            schema.get("type").and_then(Value::as_str) == Some("object"),
            "the arguments of `{owner}` must be a struct with named fields, since every argument has a name"
        );
        if let Some(keywords) = schema.as_object_mut() {
            keywords.remove("description");
            keywords.entry("properties").or_insert_with(|| Value::Object(Map::new()));
        }
        let checker = Checker::new(schema);
        let is_plain = check.is_none() && is_plain(checker.schema());
        Self { checker, check, is_plain }
    }

    /// The schema as clients see it.
    pub(crate) fn published(&self) -> Value {
        self.checker.published()
    }

    /// The fields and their schemas.
    pub(crate) fn fields(&self) -> impl Iterator<Item = (&String, &Value)> {
        self.checker.schema()["properties"].as_object().into_iter().flatten()
    }

    pub(crate) fn is_required(&self, field: &str) -> bool {
        let required = self.checker.schema().get("required").and_then(Value::as_array);
        required.is_some_and(|names| names.iter().any(|name| name == field))
    }

    /// From the `arguments` of a `tools/call`; absent is the same as empty.
    pub(crate) fn read(&self, arguments: Option<&Raw>) -> Result<A, ToolError> {
        if let Some(arguments) = arguments.filter(|arguments| self.is_plain && arguments.is_object())
            && let Ok(read) = serde_json::from_slice(arguments.as_bytes())
        {
            return Ok(read);
        }
        let value = match arguments.filter(|arguments| !arguments.is_null()) {
            Some(arguments) => arguments.read()?,
            None => Value::Object(Map::new()),
        };
        self.accept(value)
    }

    /// From texts, as prompts and templates have them: a field that should be a number or a flag is parsed as one.
    pub(crate) fn read_texts(
        &self,
        texts: impl IntoIterator<Item = (String, String)>,
    ) -> Result<A, ToolError> {
        let schema = self.checker.schema();
        let fields = texts.into_iter().map(|(name, text)| {
            let wants_text = wants(&schema["properties"][&name], "string");
            let read = (!wants_text).then(|| serde_json::from_str(&text).ok()).flatten();
            (name, read.unwrap_or(Value::String(text)))
        });
        self.accept(Value::Object(fields.collect()))
    }

    /// All problems of a configuration.
    pub(crate) fn problems(&self, mut config: Value) -> Problems {
        let found = self.checker.clamp(&mut config).and_then(|()| self.checker.check(&config));
        let mut problems = match found {
            Ok(problems) => problems,
            Err(too_many_ways) => return too_many_ways.into(),
        };
        if problems.is_empty() && A::deserialize(&config).is_err() {
            problems.extend(unreadable::<A>(&config));
        }
        problems
    }

    /// From a configuration that has no problems.
    pub(crate) fn read_config(&self, mut config: Value) -> Result<A, ToolError> {
        self.checker.clamp(&mut config)?;
        Ok(serde_json::from_value(config)?)
    }

    /// Collects all problems before it returns any: if the arguments can be deserialized, the tool's own check runs
    /// beside the schema.
    fn accept(&self, mut value: Value) -> Result<A, ToolError> {
        self.checker.clamp(&mut value)?;
        let mut problems = self.checker.check(&value)?;
        let read = A::deserialize(&value);
        match (&read, self.check) {
            (Ok(arguments), Some(check)) if problems.is_empty() => check(arguments, &mut problems),
            (Ok(arguments), Some(check)) => problems.extend(found_by(check, arguments)),
            (Err(_), _) if problems.is_empty() => problems.extend(unreadable::<A>(&value)),
            (Ok(_), None) | (Err(_), _) => {}
        }
        problems.into_result()?;
        Ok(read?)
    }
}

/// Problems that only deserialization finds, such as an invalid date, with their paths.
fn unreadable<A: Arguments>(value: &Value) -> Problems {
    let mut problems = Problems::default();
    if let Err(error) = serde_path_to_error::deserialize::<_, A>(value) {
        // It may repeat a whole value.
        let text = error.inner().to_string();
        let message = cut(&text, LONGEST);
        match path(error.path()) {
            path if path.is_empty() => problems.add_general(message),
            path => problems.add(&path, format!("cannot be read: {message}")),
        }
    }
    problems
}

/// The path as a model would write it, as far as it is known: a value that can be read in several ways has none.
fn path(path: &serde_path_to_error::Path) -> String {
    let mut text = String::new();
    for segment in path {
        match segment {
            Segment::Seq { index } => text.extend(["[", &index.to_string(), "]"]),
            Segment::Map { key } if text.is_empty() => text.push_str(key),
            Segment::Map { key } => text.extend([".", key]),
            Segment::Enum { .. } => {}
            Segment::Unknown => break,
        }
    }
    cut(&text, LONGEST).into_owned()
}

/// Whether deserializing finds everything that the schema would: the fields are texts, numbers or flags, or lists of
/// these. Not structs within structs: deserializing such a struct would accept a list, too.
fn is_plain(schema: &Value) -> bool {
    let is_simple = |(name, value): (&String, &Value)| match name.as_str() {
        "type" | "required" => true,
        "properties" => value.as_object().is_some_and(|fields| fields.values().all(is_plain_field)),
        _ => false,
    };
    schema.as_object().is_some_and(|keywords| keywords.iter().all(is_simple))
}

fn is_plain_field(schema: &Value) -> bool {
    let is_simple = |(name, value): (&String, &Value)| match name.as_str() {
        "type" => value != "object",
        "description" | "default" => true,
        "format" => limits::is_of_number(value),
        "minimum" | "maximum" => schema.as_object().is_some_and(|all| limits::is_of_type(all, name)),
        "items" => is_plain_field(value),
        _ => false,
    };
    let is_object =
        |types: &Value| types.as_array().is_some_and(|types| types.iter().any(|one| one == "object"));
    !is_object(&schema["type"]) && schema.as_object().is_some_and(|keywords| keywords.iter().all(is_simple))
}

/// The problems that a check finds in arguments that the schema has refused already; none if the check panics.
fn found_by<A>(check: Check<A>, arguments: &A) -> Problems {
    let checking = AssertUnwindSafe(|| {
        let mut problems = Problems::default();
        check(arguments, &mut problems);
        problems
    });
    catch_unwind(checking).unwrap_or_default()
}

fn wants(schema: &Value, name: &str) -> bool {
    match schema.get("type") {
        Some(Value::String(only)) => only == name,
        Some(Value::Array(several)) => several.iter().any(|one| one == name),
        // A choice or a reference: text, unless its type is given.
        _ => true,
    }
}

#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;
