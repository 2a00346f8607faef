//! Checks a schema. Without `$schema` it is read as 2020-12; a schema that is valid only as draft-07 gets that
//! `$schema`, because later readers would assume the newer draft.

use serde_json::Value;
use toolyard_proto::Raw;

const DRAFT_07: &str = "http://json-schema.org/draft-07/schema#";

/// The schema as it is shown, or what is wrong with it.
pub fn check(schema: &Raw) -> Result<Raw, String> {
    let value: Value = schema.read().map_err(|error| format!("its `inputSchema` cannot be read: {error}"))?;
    if let Some(dialect) = value.get("$schema") {
        if !dialect.is_string() {
            return Err("`$schema` of its `inputSchema` must be a string".into());
        }
        let meta = jsonschema::meta::validate(&value);
        return match meta.map_err(|error| format!("its `inputSchema` is not valid: {error}")) {
            Ok(()) => Ok(schema.clone()),
            Err(error) => Err(error),
        };
    }
    let Err(newest) = jsonschema::draft202012::meta::validate(&value) else { return Ok(schema.clone()) };
    if jsonschema::draft7::meta::is_valid(&value) {
        return Ok(schema.with("$schema", &Raw::from_serialize(&DRAFT_07)));
    }
    Err(format!("its `inputSchema` is not valid: {newest}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn checked(schema: Value) -> Result<Value, String> {
        check(&schema.into()).map(|raw| raw.read().unwrap())
    }

    #[test]
    fn a_schema_is_read_as_the_newest_and_stamped_where_only_the_older_fits() {
        let newest =
            json!({ "type": "object", "properties": { "a": { "prefixItems": [{ "type": "string" }] } } });
        assert_eq!(checked(newest.clone()), Ok(newest));
        let older = json!({ "type": "object", "properties": { "a": { "items": [{ "type": "string" }] } } });
        assert_eq!(checked(older).unwrap()["$schema"], DRAFT_07);
        let draft_07 =
            json!({ "$schema": DRAFT_07, "type": "object", "properties": { "a": { "items": [{}] } } });
        assert_eq!(checked(draft_07.clone()), Ok(draft_07));
    }

    #[test]
    fn an_invalid_schema_is_refused() {
        for schema in [
            json!({ "type": "object", "properties": { "a": { "type": "number or so" } } }),
            json!({ "type": "object", "required": "a" }),
            json!({ "$schema": 7, "type": "object" }),
            json!({ "$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object", "properties": { "a": { "items": [{}] } } }),
            json!({ "$schema": "urn:unknown:schema", "type": "object" }),
        ] {
            assert!(checked(schema.clone()).is_err(), "{schema}");
        }
    }
}
