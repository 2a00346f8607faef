//! The tools that a run can use. A trait, since tests offer tools without a gateway.

use futures_util::future::BoxFuture;
use serde_json::Value;
use toolyard_tool::{Context, ToolError, Tools};

/// A tool that the caller may use.
#[derive(Clone, Debug)]
pub(crate) struct Offered {
    /// As it is listed, such as `code__grep_search`.
    pub(crate) name: String,
    /// `UPSTREAM:TOOL`, whatever the name, if the gateway knows it.
    pub(crate) id: Option<String>,
    pub(crate) description: String,
    pub(crate) schema: Value,
    pub(crate) is_destructive: bool,
}

/// Where tools come from.
pub(crate) trait Toolbox: Send + Sync + 'static {
    fn list(&self) -> BoxFuture<'_, Result<Vec<Offered>, ToolError>>;

    /// The text of the answer, and whether it is a failure.
    fn call(&self, name: &str, arguments: Value) -> BoxFuture<'_, Result<(String, bool), ToolError>>;
}

/// The tools of the gateway that the caller of a tool may use.
#[derive(Debug)]
pub(crate) struct CallersTools(Tools);

impl CallersTools {
    pub(crate) fn new(context: &Context) -> Result<Self, ToolError> {
        context.tools().map(Self)
    }
}

impl Toolbox for CallersTools {
    fn list(&self) -> BoxFuture<'_, Result<Vec<Offered>, ToolError>> {
        Box::pin(async move {
            let definitions = self.0.list().await?;
            let mut all: Vec<Offered> = definitions.iter().filter_map(offered).collect();
            for tool in &mut all {
                tool.id = self.0.id(&tool.name);
            }
            Ok(all)
        })
    }

    fn call(&self, name: &str, arguments: Value) -> BoxFuture<'_, Result<(String, bool), ToolError>> {
        let name = name.to_owned();
        Box::pin(async move {
            let answer = self.0.call(&name, arguments).await?;
            let (text, is_error) = (answer.text(), answer.is_error());
            let whole = |structured: &Value| structured.to_string();
            let text =
                if text.is_empty() { answer.structured().map(whole).unwrap_or_default() } else { text };
            Ok((text, is_error))
        })
    }
}

/// A tool that does not declare what it does may destroy something, as the protocol has it.
fn offered(definition: &Value) -> Option<Offered> {
    let hint = |key: &str| definition.pointer(&format!("/annotations/{key}")).and_then(Value::as_bool);
    let is_destructive = hint("readOnlyHint") != Some(true) && hint("destructiveHint") != Some(false);
    Some(Offered {
        name: definition.get("name")?.as_str()?.to_owned(),
        id: None,
        description: definition.get("description").and_then(Value::as_str).unwrap_or_default().to_owned(),
        schema: definition
            .get("inputSchema")
            .cloned()
            .unwrap_or_else(|| serde_json::json!({ "type": "object" })),
        is_destructive,
    })
}
