//! Tools that ask: in the middle of the call where the revision allows that, else with the answer.

use serde_json::{Value, json};
use toolyard_proto::Revision;

use super::server::{Call, error};
use super::tools::text;

impl Call {
    pub(super) async fn interact(&self, tool: &str) -> Result<Value, Value> {
        let (method, params, capability): (_, _, &[&str]) = match tool {
            "elicit" => ("elicitation/create", self.form(), &["elicitation"]),
            "elicit_url" => ("elicitation/create", self.page_to_visit(), &["elicitation", "url"]),
            "sample" => ("sampling/createMessage", sampling(), &["sampling"]),
            _ => ("roots/list", json!({}), &["roots"]),
        };
        if self.server.is_modern() {
            return self.ask_today(method, &params, capability);
        }
        match self.server.put(&self.out, method, params).await {
            Ok(answer) => Ok(as_text(&answer)),
            Err(error) => {
                let mut refused = text(&format!("refused: {}", error["message"].as_str().unwrap_or("?")));
                refused["isError"] = json!(true);
                Ok(refused)
            }
        }
    }

    fn form(&self) -> Value {
        let schema = json!({ "type": "object", "properties": { "name": { "type": "string" } } });
        let mut params = json!({ "message": "Who?", "requestedSchema": schema });
        if self.server.knows(Revision::V2025_11_25) {
            params["mode"] = json!("form");
        }
        params
    }

    fn page_to_visit(&self) -> Value {
        let mut params = json!({ "mode": "url", "message": "Look", "url": "https://example.com/" });
        if !self.server.is_modern() {
            params["elicitationId"] = json!("e1");
        }
        params
    }

    fn ask_today(&self, method: &str, params: &Value, capability: &[&str]) -> Result<Value, Value> {
        if !self.declares(capability) {
            let required = capability.iter().rev().fold(json!({}), |inner, key| json!({ *key: inner }));
            let data = json!({ "requiredCapabilities": required });
            return Err(json!({ "code": -32021, "message": "the client cannot", "data": data }));
        }
        let Some(responses) = self.params.get("inputResponses") else {
            let requests = json!({ "q": { "method": method, "params": params } });
            return Ok(
                json!({ "resultType": "input_required", "inputRequests": requests, "requestState": "kept" }),
            );
        };
        match (self.params["requestState"] == "kept", responses.get("q")) {
            (true, Some(answer)) => Ok(as_text(answer)),
            _ => Err(error(-32602, "the state is not what was given out, or the answer is missing")),
        }
    }
}

fn sampling() -> Value {
    json!({ "messages": [{ "role": "user", "content": { "type": "text", "text": "?" } }], "maxTokens": 5 })
}

/// The answer, as the text that the client looks for.
fn as_text(answer: &Value) -> Value {
    let found = [
        &answer["content"]["name"],
        &answer["content"]["text"],
        &answer["roots"][0]["uri"],
        &answer["action"],
    ];
    text(found.into_iter().find_map(Value::as_str).unwrap_or("nothing"))
}
