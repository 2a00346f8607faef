//! The part of the control API that is about the config: it shows the config and adds servers.

use std::path::PathBuf;
use std::sync::Arc;

use http::{Method, StatusCode};
use serde_json::{Value, json};
use toolyard_config::{Problem, Role};
use toolyard_core::{Answered, Gateway, Route, Who};
use toolyard_model::{ControlRequest, ControlResponse};

use crate::cli::Common;
use crate::commands::{self, Drafted};
use crate::settings;

fn internal(message: &str) -> ControlResponse {
    ControlResponse::error(StatusCode::INTERNAL_SERVER_ERROR, "failed", message)
}

/// The routes that show the config and add to it, with the code of `toolyard add`.
pub(crate) fn config_routes(gateway: &Gateway, common: &Common) {
    let common = Arc::new(common.clone());
    let show = common.clone();
    let preview = common.clone();
    let add = common;
    gateway.add_routes([
        Route::new(Method::GET, "/config", Who::Operator, "The config files in force.", move |_, _, _| {
            let common = show.clone();
            Box::pin(async move { Ok(ControlResponse::json(&config_json(&common))) })
        }),
        Route::new(
            Method::POST,
            "/config/servers/preview",
            Who::Operator,
            "What adding a server would change.",
            move |_, request, _| change(&preview, request, false),
        ),
        Route::new(
            Method::POST,
            "/config/servers",
            Who::Operator,
            "Add a server to the config.",
            move |_, request, _| change(&add, request, true),
        ),
    ]);
}

fn config_json(common: &Common) -> Value {
    let (found, loaded) = settings::look(common);
    let file = |path: &PathBuf, role: Role| {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        let role = if role == Role::Own { "own" } else { "project" };
        json!({ "path": path.display().to_string(), "role": role, "text": redacted(&text) })
    };
    let files: Vec<Value> = found.sources.iter().map(|source| file(&source.path, source.role)).collect();
    let problems: Vec<String> = loaded.problems.iter().map(Problem::to_string).collect();
    json!({ "files": files, "problems": problems })
}

/// A config without values that look like secrets and are not variables.
fn redacted(text: &str) -> String {
    let Ok(mut document) = text.parse::<toml_edit::DocumentMut>() else {
        return "(not shown, since it is not valid TOML and may have secrets)".to_owned();
    };
    hide_secrets(document.as_table_mut());
    document.to_string()
}

fn hide_secrets(table: &mut dyn toml_edit::TableLike) {
    for (key, item) in table.iter_mut() {
        let is_secret = toolyard_core::redact::is_secret(key.get());
        if let Some(inner) = item.as_table_like_mut() {
            hide_secrets(inner);
        } else if let Some(tables) = item.as_array_of_tables_mut() {
            tables.iter_mut().for_each(|table| hide_secrets(table));
        } else if let Some(array) = item.as_array_mut().filter(|_| !is_secret) {
            hide_in_array(array);
        } else if is_secret && !item.as_str().is_some_and(is_variable) {
            *item = toml_edit::value(toolyard_core::redact::REDACTED);
        }
    }
}

fn hide_in_array(array: &mut toml_edit::Array) {
    for value in array.iter_mut() {
        if let Some(table) = value.as_inline_table_mut() {
            hide_secrets(table);
        } else if let Some(array) = value.as_array_mut() {
            hide_in_array(array);
        }
    }
}

/// Whether a value is nothing but a variable, perhaps after `Bearer`.
fn is_variable(text: &str) -> bool {
    let text = text.strip_prefix("Bearer ").unwrap_or(text);
    text.strip_prefix("${")
        .and_then(|rest| rest.strip_suffix('}'))
        .is_some_and(|name| !name.contains(['$', '}']))
}

fn change(
    common: &Arc<Common>,
    request: &ControlRequest,
    is_final: bool,
) -> toolyard_model::BoxFuture<Answered> {
    let (common, body) = (common.clone(), request.body.clone());
    Box::pin(async move {
        let changed = tokio::task::spawn_blocking(move || {
            let body: Value = serde_json::from_slice(&body).unwrap_or_default();
            let text = |key: &str| body[key].as_str().unwrap_or_default().trim().to_owned();
            let variables = body["variables"].as_array().into_iter().flatten();
            let variables = variables.filter_map(|one| one.as_str().map(str::to_owned)).collect();
            commands::draft_server(&common, &text("name"), &text("target"), variables, is_final)
        });
        match changed.await {
            Ok(Ok(drafted)) => Ok(ControlResponse::json(&drafted_json(&drafted))),
            Ok(Err(failure)) => {
                let message = failure.text();
                Err(ControlResponse::error(StatusCode::UNPROCESSABLE_ENTITY, "refused", &message))
            }
            Err(error) => Err(internal(&error.to_string())),
        }
    })
}

fn drafted_json(drafted: &Drafted) -> Value {
    json!({
        "id": drafted.id,
        "file": drafted.file,
        "before": redacted(&drafted.before),
        "after": redacted(&drafted.after),
        "remarks": drafted.remarks.iter().map(Problem::to_string).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_hidden_wherever_they_are_written_and_variables_are_shown() {
        let hidden = |text: &str| assert!(!redacted(text).contains("s3cret"), "{}", redacted(text));
        for text in [
            "[listen]\ntoken = \"s3cret\"\n",
            "[upstreams.a]\nheaders = { Authorization = \"Bearer s3cret\" }\n",
            "[upstreams.a.headers]\nAuthorization = \"Bearer s3cret\"\n",
            "[upstreams]\na = { env = { API_KEY = \"s3cret\" } }\n",
            "[[hooks.list]]\npassword = \"s3cret\"\n",
            "[packs.models]\nproviders = [{ key = \"a\", api_key = \"s3cret\" }, [{ token = \"s3cret\" }]]\n",
            "[listen]\ntoken = [\"s3cret\"]\n",
            "token = \"${TOKEN}s3cret\"\n",
            "token = s3cret",
        ] {
            hidden(text);
        }
        let variable = "[listen]\ntoken = \"${TOKEN}\"\nhttp = \"127.0.0.1:1\"\n";
        assert_eq!(redacted(variable), variable);
    }
}
