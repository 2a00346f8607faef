//! What becomes of the operations of a small shop: the tools, and the requests of their calls.

use http::HeaderMap;
use serde_json::{Value, json};

use crate::{Description, Skipped};

const SHOP: &str = r##"
openapi: 3.0.3
info: { title: Shop, version: "2" }
servers: [{ url: "https://{region}.shop.example/v2/", variables: { region: { default: eu } } }]
paths:
  /pets/{id}:
    parameters:
      - { name: id, in: path, required: true, schema: { type: integer } }
      - { name: Accept, in: header, schema: { type: string } }
    get:
      operationId: getPet
      summary: One pet.
      parameters:
        - { name: tag, in: query, schema: { type: array, items: { type: string } } }
        - { name: ids, in: query, explode: false, schema: { type: array, items: { type: integer } } }
        - { name: filter, in: query, style: deepObject, schema: { type: object } }
        - { name: id, in: query, schema: { type: string } }
        - { name: X-Trace, in: header, schema: { type: string } }
    put:
      requestBody:
        required: true
        content: { application/json: { schema: { $ref: "#/components/schemas/Pet" } } }
  /upload:
    post:
      operationId: upload
      requestBody: { content: { multipart/form-data: { schema: { type: object } } } }
  /login:
    post:
      operationId: log in
      requestBody: { content: { application/x-www-form-urlencoded: { schema: { type: object } } } }
components:
  schemas:
    Pet:
      type: object
      required: [name]
      properties:
        name: { type: string, nullable: true }
        parent: { $ref: "#/components/schemas/Pet" }
        owner: { $ref: "#/components/schemas/Owner" }
    Owner: { type: object }
    Unused: { type: object }
"##;

fn shop() -> Description {
    Description::read(SHOP).unwrap()
}

fn tool(name: &str) -> Value {
    shop().operations.into_iter().find(|operation| operation.name == name).unwrap().definition
}

fn request(name: &str, arguments: &Value) -> Result<(String, String, String), String> {
    let shop = shop();
    let operation = shop.operations.iter().find(|operation| operation.name == name).unwrap();
    let request =
        operation.request("https://x.example", &HeaderMap::new(), arguments.as_object().unwrap())?;
    let (head, body) = request.into_parts();
    let body = String::from_utf8(body.to_vec()).unwrap();
    Ok((head.method.to_string(), head.uri.to_string(), body))
}

#[test]
fn each_operation_is_a_tool_and_the_rest_is_named() {
    let shop = shop();
    let names: Vec<&str> = shop.operations.iter().map(|operation| operation.name.as_str()).collect();
    assert_eq!(names, ["getPet", "put_pets__id", "log_in"]);
    let skipped = Skipped { operation: "POST /upload".into(), why: "its body is multipart/form-data".into() };
    assert_eq!(shop.skipped, [skipped]);
    assert_eq!(shop.base.as_deref(), Some("https://eu.shop.example/v2"));
}

#[test]
fn schemas_hold_all_that_they_refer_to() {
    let schema = &tool("put_pets__id")["inputSchema"];
    assert_eq!(schema["required"], json!(["id", "body"]));
    assert_eq!(schema["properties"]["body"]["$ref"], "#/$defs/Pet");
    let names: Vec<&String> = schema["$defs"].as_object().unwrap().keys().collect();
    assert_eq!(names, ["Owner", "Pet"]);
    assert_eq!(schema["$defs"]["Pet"]["properties"]["parent"]["$ref"], "#/$defs/Pet");
    assert_eq!(schema["$defs"]["Pet"]["properties"]["name"]["type"], json!(["string", "null"]));
}

#[test]
fn arguments_go_where_the_description_puts_them() {
    let tool = tool("getPet");
    let names: Vec<&String> = tool["inputSchema"]["properties"].as_object().unwrap().keys().collect();
    assert_eq!(names, ["tag", "ids", "filter", "id", "X-Trace", "path_id"]);
    assert_eq!(tool["annotations"]["readOnlyHint"], true);
    let arguments =
        json!({ "path_id": 7, "id": "q", "tag": ["a", "b c"], "ids": [1, 2], "filter": { "age": 3 } });
    let (method, uri, _) = request("getPet", &arguments).unwrap();
    assert_eq!(method, "GET");
    assert_eq!(uri, "https://x.example/pets/7?tag=a&tag=b+c&ids=1%2C2&filter%5Bage%5D=3&id=q");
}

#[test]
fn bodies_are_json_or_forms() {
    let (method, uri, body) =
        request("put_pets__id", &json!({ "id": 1, "body": { "name": "Rex" } })).unwrap();
    assert_eq!((method.as_str(), uri.as_str()), ("PUT", "https://x.example/pets/1"));
    assert_eq!(body, r#"{"name":"Rex"}"#);
    let (_, _, body) = request("log_in", &json!({ "body": { "user": "a b", "pin": 1 } })).unwrap();
    assert_eq!(body, "user=a+b&pin=1");
}

#[test]
fn a_value_cannot_leave_its_segment_of_the_path() {
    let (_, uri, _) = request("put_pets__id", &json!({ "id": "../admin?x=1#y" })).unwrap();
    assert_eq!(uri, "https://x.example/pets/..%2Fadmin%3Fx%3D1%23y");
    assert_eq!(request("put_pets__id", &json!({ "id": ".." })), Err("`id` must not be `..`".into()));
    assert_eq!(request("put_pets__id", &json!({})), Err("`id` is required".into()));
    assert!(request("getPet", &json!({ "path_id": 1, "X-Trace": "a\nb: c" })).is_err());
}
