//! The description of the control API, made from the table of its routes.

use serde_json::{Map, Value, json};

use super::{Route, Who};

pub(super) fn describe<'a>(routes: impl Iterator<Item = &'a Route>) -> Value {
    let mut paths = Map::new();
    for route in routes {
        let at = paths.entry(route.path).or_insert_with(|| json!({}));
        at[route.method.as_str().to_lowercase()] = operation(route);
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Toolyard control API",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Watch and manage a running gateway. Paths marked with an operator need the local socket of the same user, the operator token, or a session of the dashboard.",
        },
        "servers": [{ "url": "/api/v1" }],
        "paths": paths,
        "components": {
            "securitySchemes": { "bearer": { "type": "http", "scheme": "bearer" } },
            "schemas": { "Error": {
                "type": "object",
                "required": ["error"],
                "properties": { "error": {
                    "type": "object",
                    "required": ["code", "message"],
                    "properties": { "code": { "type": "string" }, "message": { "type": "string" } },
                } },
            } },
        },
    })
}

fn operation(route: &Route) -> Value {
    let captures = route.path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
    let in_path = captures
        .map(|name| json!({ "name": name, "in": "path", "required": true, "schema": { "type": "string" } }));
    let in_query = route.query.iter().map(|(name, description)| {
        json!({ "name": name, "in": "query", "description": description, "schema": { "type": "string" } })
    });
    let error = json!({ "$ref": "#/components/schemas/Error" });
    let failed =
        |what: &str| json!({ "description": what, "content": { "application/json": { "schema": error } } });
    let mut operation = json!({
        "summary": route.summary,
        "parameters": in_path.chain(in_query).collect::<Vec<_>>(),
        "responses": {
            "200": { "description": "Done.", "content": { route.answers: { "schema": {} } } },
            "default": failed("What failed, for programs and for people."),
        },
    });
    if route.who == Who::Operator {
        operation["security"] = json!([{ "bearer": [] }]);
        operation["responses"]["403"] = failed("The connection is not an operator's.");
    }
    operation
}
