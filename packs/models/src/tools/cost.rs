//! `get_cost_report`: what requests to models took.

use std::fmt::Write as _;
use std::time::{SystemTime, UNIX_EPOCH};

use schemars::JsonSchema;
use serde::Deserialize;
use toolyard_tool::{Context, ToolError, tool};

use super::WithText;
use crate::ledger::{Report, Requests, Sum};
use crate::models::Models;

#[derive(Deserialize, JsonSchema)]
pub(crate) struct Which {
    /// Only requests of this session (`agent_context.session_id`).
    session_id: Option<String>,
    /// Only requests of the last days.
    #[schemars(range(min = 1, max = 3650))]
    days: Option<u32>,
}

/// Reports the tokens and the cost of your requests to models and of those of your agents, by agent, session and model;
/// an operator sees those of all. A price that is not configured is unknown, never guessed.
#[tool(read_only, idempotent)]
pub(crate) fn get_cost_report(
    models: &Models,
    context: &Context,
    args: Which,
) -> Result<WithText<Report>, ToolError> {
    let caller = context.caller();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let now = i64::try_from(now).unwrap_or(i64::MAX);
    let since = args.days.map(|days| now - i64::from(days) * 86_400);
    let principal = (!caller.sees_all).then_some(caller.principal.as_str());
    let report = models.ledger.report(Requests { principal, session: args.session_id.as_deref(), since })?;
    let text = readable(&report);
    Ok(WithText::new(report, text))
}

const COLUMNS: &str =
    "| Requests | Failed | Cancelled | Tokens in | Tokens out | Cost |\n|---|---|---|---|---|---|---|";

fn readable(report: &Report) -> String {
    let mut text = String::new();
    for (title, sums) in
        [("Agent", &report.by_agent), ("Session", &report.by_session), ("Model", &report.by_model)]
    {
        let _ = writeln!(text, "| {title} {COLUMNS}");
        for sum in sums {
            line(&mut text, sum);
        }
        text.push('\n');
    }
    let _ = writeln!(text, "| {COLUMNS}");
    line(&mut text, &report.total);
    if report.prices.is_empty() {
        text.push_str(
            "\nNo prices are known: set `price_in` and `price_out` of the models in [packs.models].\n",
        );
    } else {
        let _ = writeln!(text, "\nPrices as configured: {}.", report.prices.join(", "));
    }
    text
}

fn line(text: &mut String, sum: &Sum) {
    let name = if sum.name.is_empty() { "(none)" } else { &sum.name };
    let cost = match (sum.cost, sum.without_price) {
        (None, _) => "unknown".to_owned(),
        (Some(cost), 0) => format!("{cost:.4}"),
        (Some(cost), unknown) => format!("{cost:.4}, and {unknown} unknown"),
    };
    let _ = writeln!(
        text,
        "| {name} | {} | {} | {} | {} | {} | {cost} |",
        sum.requests, sum.failed, sum.cancelled, sum.input_tokens, sum.output_tokens
    );
}
