//! Which tools a model gets, and which of its calls the user must allow first.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use tokio::sync::Mutex;
use toolyard_tool::{Context, Reply, ToolError};

use super::Offered;
use crate::conversation::ToolSpec;
use crate::sse::shortened;

/// The most tools that a request may have; providers refuse more.
const MOST_TOOLS: usize = 128;

/// The tools of one run.
#[derive(Debug)]
pub(crate) struct Chosen {
    tools: Vec<Offered>,
    /// Patterns of tools that the config allows without a question.
    approved: Vec<String>,
    /// One question at a time, however many calls wait for one.
    asking: Mutex<()>,
}

/// Those of `offered` that match a pattern: `code:*`, `github:get_*`, or a name as it is listed.
pub(crate) fn choose(
    offered: Vec<Offered>,
    patterns: &[String],
    approved: &[String],
) -> Result<Chosen, ToolError> {
    let fits = |tool: &Offered| patterns.iter().any(|pattern| tool.fits(pattern));
    let tools: Vec<Offered> = offered.into_iter().filter(fits).collect();
    let named = || patterns.iter().map(|pattern| format!("`{pattern}`")).collect::<Vec<_>>().join(", ");
    if tools.is_empty() {
        return Err(ToolError::new(format!("no tool that you may use matches {}", named()))
            .hint("pass other patterns as `tools`, such as [\"code:*\"]"));
    }
    if tools.len() > MOST_TOOLS {
        let what = format!("{} tools match {}, and a model takes at most {MOST_TOOLS}", tools.len(), named());
        return Err(ToolError::new(what).hint("pass narrower patterns as `tools`"));
    }
    Ok(Chosen { tools, approved: approved.to_vec(), asking: Mutex::new(()) })
}

#[derive(Deserialize, JsonSchema)]
struct Confirm {
    /// Let the model call the tool?
    allow: bool,
}

impl Chosen {
    pub(crate) fn specs(&self) -> Vec<ToolSpec> {
        self.tools.iter().map(ToolSpec::from).collect()
    }

    pub(crate) fn find(&self, name: &str) -> Option<&Offered> {
        self.tools.iter().find(|tool| tool.name == name)
    }

    /// Asks the user about a tool that may destroy something.
    pub(crate) async fn permit(
        &self,
        tool: &Offered,
        arguments: &Value,
        context: &Context,
    ) -> Result<(), ToolError> {
        if !tool.is_destructive || self.approved.iter().any(|pattern| tool.fits(pattern)) {
            return Ok(());
        }
        if !context.can_ask() {
            return Err(ToolError::new(format!(
                "`{}` may change or delete something, and the user cannot be asked",
                tool.name
            ))
            .hint("use another tool, or describe what should be done"));
        }
        let question =
            format!("A model wants to call `{}` with {}.", tool.name, shortened(&arguments.to_string()));
        let reply = {
            let _turn = self.asking.lock().await;
            context.ask::<Confirm>(question).await?
        };
        match reply {
            Reply::Accepted(Confirm { allow: true }) => Ok(()),
            _ => Err(ToolError::new(format!("the user did not allow `{}`", tool.name))),
        }
    }
}

impl Offered {
    /// Whether the pattern means this tool, by its listed name or as `UPSTREAM:TOOL`, which also holds where the names
    /// do not show the upstream.
    fn fits(&self, pattern: &str) -> bool {
        let qualified = || self.name.replacen("__", ":", 1);
        let id = self.id.clone().unwrap_or_else(qualified);
        matches(pattern, &self.name) || matches(pattern, &id)
    }
}

/// `*` is any text.
fn matches(pattern: &str, text: &str) -> bool {
    let Some((head, rest)) = pattern.split_once('*') else { return pattern == text };
    let Some(text) = text.strip_prefix(head) else { return false };
    if rest.is_empty() {
        return true;
    }
    text.char_indices().map(|(at, _)| at).chain([text.len()]).any(|at| matches(rest, &text[at..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_means_the_id_of_a_tool_whatever_its_name() {
        let tool = |name: &str, id: Option<&str>| Offered {
            name: name.into(),
            id: id.map(str::to_owned),
            description: String::new(),
            schema: Value::Null,
            is_destructive: false,
        };
        assert!(tool("grep_search", Some("code:grep_search")).fits("code:*"));
        assert!(tool("code__grep_search", None).fits("code:*"));
        assert!(!tool("code__x", Some("other:code__x")).fits("code:*"), "a name may look like another id");
    }

    #[test]
    fn a_pattern_means_names_with_any_text_in_the_place_of_a_star() {
        let check =
            |pattern, text, expected| assert_eq!(matches(pattern, text), expected, "{pattern} {text}");
        check("code:*", "code:grep_search", true);
        check("code:*", "codex:x", false);
        check("*", "", true);
        check("github:get_*_list", "github:get_a_list", true);
        check("github:get_*_list", "github:get_a", false);
        check("a*b*c", "a-b-b-c", true);
        check("plain", "plain", true);
        check("plain", "plainer", false);
    }
}
