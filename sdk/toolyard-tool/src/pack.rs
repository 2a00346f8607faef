//! A pack: a set of tools that comes with a gateway, and the keys of its configuration. A Rust type describes the
//! keys, as with the arguments of a tool.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use crate::arguments::{NoArguments, Reader};
use crate::schema::PATH;
use crate::{Arguments, Host, ToolError, ToolSet};

/// A set of tools with a name and a configuration, ready to be put into a gateway or served alone.
///
/// ```
/// use schemars::JsonSchema;
/// use serde::Deserialize;
/// use serde_json::json;
/// use toolyard_tool::{Pack, ToolSet};
///
/// #[derive(Deserialize, JsonSchema)]
/// struct Config {
///     /// Where the music is.
///     root: std::path::PathBuf,
/// }
///
/// fn tools(config: Config) -> ToolSet {
///     ToolSet::new("music", "1.0.0")
/// }
///
/// let pack = Pack::with_config("music", "Finds and plays music", tools);
/// assert!(pack.needs_config());
/// assert_eq!(pack.keys()[0].about(), "Where the music is.");
/// assert_eq!(pack.check(&json!({}))[0].to_string(), "`root` is missing");
/// ```
pub struct Pack {
    name: &'static str,
    summary: &'static str,
    keys: Vec<Key>,
    check: Box<ConfigCheck>,
    make: Box<Make>,
    idle: Option<Duration>,
    is_opt_in: bool,
}

type ConfigCheck = dyn Fn(&Value) -> Vec<Wrong> + Send + Sync;
type Make = dyn Fn(Value, Host) -> Result<ToolSet, ToolError> + Send + Sync;

/// One key of a pack's configuration.
///
/// ```
/// use toolyard_tool::{Key, Pack, ToolSet, schemars::JsonSchema};
///
/// #[derive(serde::Deserialize, JsonSchema)]
/// struct Config {
///     /// How deep to look.
///     depth: u32,
/// }
///
/// let pack = Pack::with_config("files", "Finds files", |_: Config| ToolSet::new("files", "1.0.0"));
/// let key: &Key = &pack.keys()[0];
/// assert_eq!((key.name(), key.about(), key.is_required()), ("depth", "How deep to look.", true));
/// ```
#[derive(Clone, Debug)]
pub struct Key {
    name: String,
    /// The name with dashes.
    flag_name: String,
    schema: Value,
    is_required: bool,
}

/// A problem of a configuration.
///
/// ```
/// use toolyard_tool::Wrong;
///
/// let wrong = Wrong { key: "folders[1]".into(), what: "must be a string, not 7".into() };
/// assert_eq!(wrong.to_string(), "`folders[1]` must be a string, not 7");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrong {
    /// The key, with the path below it (`folders[1]`); empty if the problem concerns no single key.
    pub key: String,
    /// The problem.
    pub what: String,
}

impl Pack {
    /// A pack without configuration. `make` must be cheap, since it is called even if no tool is ever called:
    /// expensive work belongs into [`ToolSet::state_with`].
    pub fn new<S: Send + Sync + 'static>(
        name: &'static str,
        summary: &'static str,
        make: impl Fn() -> ToolSet<S> + Send + Sync + 'static,
    ) -> Self {
        Self::with_config(name, summary, move |_: NoArguments| make())
    }

    /// A pack whose keys are the fields of `C`.
    pub fn with_config<C: Arguments, S: Send + Sync + 'static>(
        name: &'static str,
        summary: &'static str,
        make: impl Fn(C) -> ToolSet<S> + Send + Sync + 'static,
    ) -> Self {
        Self::with_host(name, summary, move |config: C, _| make(config))
    }

    /// A pack that uses what the hosting program offers. Take from the host only when a tool is called: listing the
    /// tools of a pack makes no folder, file or process.
    ///
    /// ```
    /// use schemars::JsonSchema;
    /// use serde::Deserialize;
    /// use serde_json::json;
    /// use toolyard_tool::{Host, Pack, ToolSet};
    ///
    /// #[derive(Deserialize, JsonSchema)]
    /// struct Config {}
    ///
    /// let pack = Pack::with_host("code", "Searches code", |_: Config, host: Host| {
    ///     ToolSet::new("code", "1.0.0").state(host)
    /// });
    /// assert!(pack.tools(json!({})).is_ok());
    /// ```
    pub fn with_host<C: Arguments, S: Send + Sync + 'static>(
        name: &'static str,
        summary: &'static str,
        make: impl Fn(C, Host) -> ToolSet<S> + Send + Sync + 'static,
    ) -> Self {
        let reader = Reader::<C>::new(name, None);
        let keys = reader.fields().map(|(name, schema)| Key {
            name: name.clone(),
            flag_name: name.replace('_', "-"),
            schema: schema.clone(),
            is_required: reader.is_required(name),
        });
        let keys = keys.collect();
        let reader = Arc::new(reader);
        let checking = reader.clone();
        let check = Box::new(move |config: &Value| checking.problems(config.clone()).into_wrongs());
        let make = Box::new(move |config, host: Host| {
            let tools = make(reader.read_config(config)?, host.clone());
            Ok(tools.state(()).hosted(&host))
        });
        Self { name, summary, keys, check, make, idle: None, is_opt_in: false }
    }

    /// Also checks what the types of single keys cannot express, once they are right.
    #[must_use]
    pub fn also_check(mut self, more: impl Fn(&Value) -> Vec<Wrong> + Send + Sync + 'static) -> Self {
        let check = self.check;
        self.check = Box::new(move |config: &Value| {
            let wrongs = check(config);
            if wrongs.is_empty() { more(config) } else { wrongs }
        });
        self
    }

    /// How long a call of this pack may take without progress, if that is longer than usual. The config can set
    /// another time for the pack and for each tool.
    #[must_use]
    pub fn idle(mut self, limit: Duration) -> Self {
        self.idle = Some(limit);
        self
    }

    /// The pack is off until the config has a section for it, even if no key of it is required.
    #[must_use]
    pub fn opt_in(mut self) -> Self {
        self.is_opt_in = true;
        self
    }

    /// The value of [`idle`](Self::idle).
    pub fn idle_limit(&self) -> Option<Duration> {
        self.idle
    }

    /// Its name, as an upstream and in `[packs.NAME]`.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Its description in one line.
    pub fn summary(&self) -> &'static str {
        self.summary
    }

    /// The keys of its configuration.
    pub fn keys(&self) -> &[Key] {
        &self.keys
    }

    /// Whether it is off until the config has a section for it.
    pub fn needs_config(&self) -> bool {
        self.is_opt_in || self.keys.iter().any(Key::is_required)
    }

    /// All problems of a configuration.
    pub fn check(&self, config: &Value) -> Vec<Wrong> {
        (self.check)(config)
    }

    /// The tools, for a configuration without problems by [`Pack::check`].
    pub fn tools(&self, config: Value) -> Result<ToolSet, ToolError> {
        self.tools_in(config, Host::inert(self.name))
    }

    /// The tools in a hosting program.
    pub fn tools_in(&self, config: Value, host: Host) -> Result<ToolSet, ToolError> {
        (self.make)(config, host)
    }
}

impl Key {
    /// The name as it is written in the config.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The name as a command-line flag: with dashes instead of underscores.
    pub fn flag_name(&self) -> &str {
        &self.flag_name
    }

    /// Its description.
    pub fn about(&self) -> &str {
        self.schema["description"].as_str().unwrap_or_default()
    }

    /// Whether the key is required.
    pub fn is_required(&self) -> bool {
        self.is_required
    }

    /// Whether it is a flag.
    pub fn is_flag(&self) -> bool {
        is_of(&self.schema, "boolean")
    }

    /// Whether it holds several values.
    pub fn is_list(&self) -> bool {
        is_of(&self.schema, "array")
    }

    /// Whether it holds a path, or several ([`path`](crate::path)).
    pub fn is_path(&self) -> bool {
        self.schema[PATH] == true
    }

    /// The value with every relative path resolved from `folder`; unchanged if the key holds no paths.
    ///
    /// ```
    /// # use std::path::{Path, PathBuf};
    /// # use toolyard_tool::{Pack, ToolSet, path, schemars::JsonSchema};
    /// # use serde_json::json;
    /// #[derive(serde::Deserialize, JsonSchema)]
    /// struct Config {
    ///     #[schemars(transform = path)]
    ///     root: PathBuf,
    /// }
    ///
    /// let pack = Pack::with_config("files", "…", |_: Config| ToolSet::new("files", "1.0.0"));
    /// let root = pack.keys()[0].within(Path::new("/srv"), json!("music"));
    /// assert_eq!(root, json!("/srv/music"));
    /// ```
    pub fn within(&self, folder: &Path, value: Value) -> Value {
        match value {
            Value::String(text) if self.is_path() => folder.join(text).to_string_lossy().into(),
            Value::Array(items) => items.into_iter().map(|item| self.within(folder, item)).collect(),
            other => other,
        }
    }

    /// The value of texts from a command line: one for each value.
    ///
    /// ```
    /// # use toolyard_tool::{Pack, ToolSet, schemars::JsonSchema};
    /// # use serde_json::json;
    /// #[derive(serde::Deserialize, JsonSchema)]
    /// struct Config { depth: Option<u32>, folders: Option<Vec<String>> }
    ///
    /// let pack = Pack::with_config("files", "…", |_: Config| ToolSet::new("files", "1.0.0"));
    /// assert_eq!(pack.keys()[0].read(&["3".into()]), json!(3));
    /// assert_eq!(pack.keys()[1].read(&["a".into(), "b".into()]), json!(["a", "b"]));
    /// ```
    pub fn read(&self, texts: &[String]) -> Value {
        if self.is_list() {
            return texts.iter().map(|text| one(&self.schema["items"], text)).collect();
        }
        texts.last().map_or(Value::Null, |text| one(&self.schema, text))
    }
}

fn one(schema: &Value, text: &str) -> Value {
    let is_plain = ["integer", "number", "boolean"].iter().any(|kind| is_of(schema, kind));
    let read = is_plain.then(|| serde_json::from_str(text).ok()).flatten();
    read.unwrap_or_else(|| text.into())
}

/// Whether a value of this schema may be of that kind.
fn is_of(schema: &Value, kind: &str) -> bool {
    match &schema["type"] {
        Value::String(only) => only == kind,
        Value::Array(several) => several.iter().any(|one| one == kind),
        _ => false,
    }
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.key.is_empty() { f.write_str(&self.what) } else { write!(f, "`{}` {}", self.key, self.what) }
    }
}

impl fmt::Debug for Pack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pack({})", self.name)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use schemars::JsonSchema;
    use serde::Deserialize;
    use serde_json::json;

    use super::*;

    #[derive(Deserialize, JsonSchema)]
    #[expect(dead_code, reason = "only its keys matter")]
    struct Config {
        root: String,
        #[serde(default)]
        #[schemars(range(max = 9))]
        depth: u32,
        #[serde(default)]
        kinds: Vec<String>,
        #[serde(default)]
        #[schemars(transform = crate::path)]
        folders: Option<Vec<std::path::PathBuf>>,
    }

    #[test]
    fn every_problem_names_its_key() {
        let pack = Pack::with_config("a", "", |_: Config| ToolSet::new("a", "1"));
        let check = |config: Value, expected: &[&str]| {
            let messages: Vec<String> = pack.check(&config).iter().map(ToString::to_string).collect();
            assert_eq!(messages, expected, "{config}");
        };
        check(json!({ "root": "/" }), &[]);
        check(json!({}), &["`root` is missing"]);
        check(
            json!({ "root": 1, "depth": 10, "kinds": ["a", 1] }),
            &[
                "`root` must be a string, not 1",
                "`depth` must be from 0 to 9, not 10",
                "`kinds[1]` must be a string, not 1",
            ],
        );
        assert!(pack.tools(json!({ "root": "/" })).is_ok());
    }

    #[derive(Deserialize, JsonSchema)]
    struct Clamped {
        #[schemars(range(min = 1, max = 9), transform = crate::clamp)]
        depth: u32,
    }

    #[test]
    fn a_key_is_moved_into_its_range_as_an_argument_is() {
        let seen = Arc::new(AtomicU32::new(0));
        let kept = seen.clone();
        let pack = Pack::with_config("a", "", move |config: Clamped| {
            kept.store(config.depth, Ordering::SeqCst);
            ToolSet::new("a", "1")
        });
        for (given, taken) in [(json!(100), 9), (json!(0), 1), (json!(5.0), 5)] {
            assert_eq!(pack.check(&json!({ "depth": given })), []);
            pack.tools(json!({ "depth": given })).unwrap();
            assert_eq!(seen.load(Ordering::SeqCst), taken, "{given}");
        }
        assert_eq!(pack.check(&json!({ "depth": "deep" })).len(), 1);
    }

    #[test]
    fn only_paths_are_taken_from_the_folder() {
        let pack = Pack::with_config("a", "", |_: Config| ToolSet::new("a", "1"));
        let check = |key: &str, value: Value, expected: Value| {
            let key = pack.keys().iter().find(|known| known.name() == key).unwrap();
            assert_eq!(key.within(Path::new("/base"), value), expected, "{key:?}");
        };
        check("root", json!("x"), json!("x"));
        check("depth", json!(3), json!(3));
        check("folders", json!(["a", "/b", "../c"]), json!(["/base/a", "/b", "/base/../c"]));
        check("folders", json!(null), json!(null));
    }
}
