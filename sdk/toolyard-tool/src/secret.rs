//! A text that is never printed, for keys and tokens in the configuration of a pack.

use std::fmt;

use schemars::JsonSchema;
use serde::Deserialize;

/// A key, a token or a password. Its schema has `writeOnly`, it has no `Serialize` and no `Display`, and `Debug` prints
/// stars; messages about an invalid value name its kind only.
///
/// ```
/// use toolyard_tool::Secret;
///
/// #[derive(Debug, serde::Deserialize, toolyard_tool::schemars::JsonSchema)]
/// struct Config {
///     /// The API key.
///     key: Secret,
/// }
///
/// let config: Config = serde_json::from_str(r#"{ "key": "hunter2" }"#).unwrap();
/// assert_eq!(config.key.expose(), "hunter2");
/// assert_eq!(format!("{config:?}"), "Config { key: *** }");
/// ```
#[derive(Clone, Deserialize, JsonSchema)]
#[serde(transparent)]
#[schemars(extend("writeOnly" = true))]
pub struct Secret(String);

impl Secret {
    /// Takes a text that must not be printed.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text itself, for the request that needs it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::{Pack, ToolSet};

    #[derive(Debug, Deserialize, JsonSchema)]
    #[expect(dead_code, reason = "only its keys matter")]
    struct Config {
        /// The API key.
        key: Secret,
        /// Another one.
        spare: Option<Secret>,
        #[serde(default)]
        headers: std::collections::BTreeMap<String, Secret>,
    }

    #[test]
    fn a_secret_is_write_only_in_the_schema_and_stars_in_debug_output() {
        let schema = crate::schema::input::<Config>();
        assert_eq!(schema["$defs"]["Secret"]["writeOnly"], true, "{schema}");
        let config = json!({ "key": "hunter2", "spare": "hunter3", "headers": { "x-account": "hunter4" } });
        let config: Config = serde_json::from_value(config).unwrap();
        let shown = format!("{config:?} {config:#?}");
        assert!(shown.contains("***") && !shown.contains("hunter"), "{shown}");
    }

    #[test]
    fn messages_about_an_invalid_secret_do_not_quote_it() {
        let pack = Pack::with_config("a", "", |_: Config| ToolSet::new("a", "1"));
        let check = |config: Value, expected: &str| {
            let messages: Vec<String> = pack.check(&config).iter().map(ToString::to_string).collect();
            assert_eq!(messages, [expected]);
        };
        check(json!({ "key": 83_151 }), "`key` must be a string, not a number");
        check(json!({ "key": ["hunter2"] }), "`key` must be a string, not an array");
        check(json!({ "key": "a", "spare": 83_151 }), "`spare` must be a string, not a number");
        let headers = json!({ "key": "a", "headers": { "x-account": { "hunter2": 1 } } });
        check(headers, "`headers.x-account` must be a string, not an object");
    }
}
