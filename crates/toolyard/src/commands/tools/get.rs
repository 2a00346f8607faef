//! `toolyard tools get`: shows the description and the arguments of a tool.

use clap::Args;
use clap_complete::ArgValueCandidates;
use serde_json::{Value, json};

use super::{Direct, Tool, Tools, schema, upstream_in, with_server};
use crate::cli::Common;
use crate::commands::completions;
use crate::failure::Failure;
use crate::say;

#[derive(Debug, Args)]
pub(crate) struct GetArgs {
    /// `upstream:tool`, the name that clients see, or the tool's own name if only one server has it.
    #[arg(add = ArgValueCandidates::new(completions::tools))]
    name: String,
    /// Print its definition as JSON, as its server gives it.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    direct: Direct,
}

pub(super) fn get(common: &Common, args: &GetArgs) -> Result<(), Failure> {
    let only = args.direct.id().map(str::to_owned).or_else(|| upstream_in(common, &args.name));
    with_server(common, only.as_deref(), &args.direct, async |client, settings| {
        let tools = Tools::for_name(client, settings, only.as_deref(), &args.name).await?;
        let tool = tools.find(&args.name)?;
        if args.json {
            say::json(&json!({
                "id": tool.canonical(), "name": tool.shown, "upstream": tool.upstream, "definition": tool.definition,
            }))?;
        } else {
            print(tool, tool.left_out(&settings.config).as_deref());
        }
        Ok(())
    })
}

fn print(tool: &Tool, left_out: Option<&str>) {
    let for_clients = match left_out {
        Some(fault) => format!("only {}, at /mcp/{}: {fault}", tool.own, tool.upstream),
        None => tool.shown.clone(),
    };
    say::result(format_args!("{}\nfor clients: {for_clients}", tool.canonical()));
    for text in [tool.text("title"), tool.text("description")].into_iter().flatten() {
        say::result(format_args!("\n{}", text.trim()));
    }
    let schema: Value =
        tool.definition.member("inputSchema").and_then(|schema| schema.read().ok()).unwrap_or_default();
    let rows = parameters(&schema);
    if rows.is_empty() {
        say::result("\nIt takes nothing.");
        return;
    }
    say::result("\nIt takes:");
    say::table(&rows);
    if let Some(example) = example(tool, &schema) {
        say::result(format_args!("\n{example}"));
    }
}

fn parameters(schema: &Value) -> Vec<[String; 3]> {
    let required =
        |name: &str| schema["required"].as_array().is_some_and(|all| all.iter().any(|own| own == name));
    let row = |(name, about): (String, Value)| {
        let need = if required(&name) { "" } else { ", optional" };
        let words = about["description"].as_str().unwrap_or_default().lines().next().unwrap_or_default();
        [format!("  {name}"), format!("{}{need}", kind(&about)), words.to_owned()]
    };
    schema::parameters(schema).into_iter().map(row).collect()
}

/// The type of value that a schema allows, in a word.
pub(super) fn kind(schema: &Value) -> String {
    match (&schema["type"], schema["enum"].as_array()) {
        (_, Some(choices)) if !choices.is_empty() => {
            choices.iter().map(Value::to_string).collect::<Vec<_>>().join("|")
        }
        (Value::String(kind), _) => kind.clone(),
        (Value::Array(kinds), _) if !kinds.is_empty() => {
            kinds.iter().filter_map(Value::as_str).collect::<Vec<_>>().join("|")
        }
        _ => "any".to_owned(),
    }
}

/// An example call with the required arguments.
fn example(tool: &Tool, schema: &Value) -> Option<String> {
    let required = schema["required"].as_array()?.iter().filter_map(Value::as_str);
    let parameters = schema::parameters(schema);
    let argument = |name: &str| match parameters.get(name).and_then(|about| about["type"].as_str()) {
        Some("array") => format!(" {name}:='[…]'"),
        Some("object") => format!(" {name}:='{{…}}'"),
        _ => format!(" {name}=…"),
    };
    let arguments: String = required.map(argument).collect();
    (!arguments.is_empty()).then(|| format!("toolyard tools call {}{arguments}", tool.canonical()))
}
