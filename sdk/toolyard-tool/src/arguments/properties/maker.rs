//! Makes values for a schema.

use serde_json::{Map, Value, json};

/// Makes values that fit a schema, or nearly: each choice is one byte, and when none is left it is the first.
pub(super) struct Maker<'a> {
    choices: std::slice::Iter<'a, u8>,
    root: &'a Value,
}

impl<'a> Maker<'a> {
    pub(super) fn new(choices: &'a [u8], root: &'a Value) -> Self {
        Self { choices: choices.iter(), root }
    }

    fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        let choice = self.choices.next().copied().unwrap_or_default();
        from[usize::from(choice) % from.len()].clone()
    }

    fn is_one_in(&mut self, many: u8) -> bool {
        self.choices.next().is_some_and(|choice| choice % many == 1)
    }

    fn value(&mut self, schema: &'a Value) -> Value {
        if self.is_one_in(12) {
            return self.stray();
        }
        let mut made = self.plain(schema);
        let others = [schema["anyOf"].as_array(), schema["oneOf"].as_array()];
        let others = others.into_iter().flatten().map(|forms| self.pick(&forms.iter().collect::<Vec<_>>()));
        let others: Vec<&Value> = others.collect();
        let target = schema["$ref"].as_str().and_then(|name| self.root.pointer(&name[1..]));
        for other in others.into_iter().chain(target) {
            made = match (made, self.value(other)) {
                (Value::Object(fields), Value::Object(more)) => fields.into_iter().chain(more).collect(),
                (_, other) => other,
            };
        }
        made
    }

    pub(super) fn plain(&mut self, schema: &'a Value) -> Value {
        if let Some(only) = schema.get("const") {
            return only.clone();
        }
        if let Some(choices) = schema["enum"].as_array() {
            return self.pick(choices);
        }
        let kind = match &schema["type"] {
            Value::Array(kinds) => self.pick(kinds),
            kind => kind.clone(),
        };
        match kind.as_str() {
            Some("integer") => self.pick(&integers()),
            Some("number") => self.pick(&[json!(0.5), json!(0), json!(1), json!(5.0), json!(1e300)]),
            Some("string") => self.pick(&["a", "abc", "", "abcd", "A", "é"]).into(),
            Some("boolean") => true.into(),
            Some("array") => self.array(schema),
            Some("object") => self.object(schema),
            Some(_) => Value::Null,
            None => self.stray(),
        }
    }

    fn array(&mut self, schema: &'a Value) -> Value {
        let first = schema["prefixItems"].as_array().map_or(&[][..], Vec::as_slice);
        let count = schema["minItems"].as_u64().unwrap_or_default() + self.pick(&[0, 0, 1, 2]);
        let item = |index: usize| first.get(index).unwrap_or(&schema["items"]);
        (0..usize::try_from(count).unwrap()).map(|index| self.value(item(index))).collect()
    }

    fn object(&mut self, schema: &'a Value) -> Value {
        let mut fields = Map::new();
        for (name, property) in schema["properties"].as_object().into_iter().flatten() {
            let is_required =
                schema["required"].as_array().is_some_and(|all| all.iter().any(|one| one == name));
            if if is_required { !self.is_one_in(20) } else { self.is_one_in(3) } {
                fields.insert(name.clone(), self.value(property));
            }
        }
        let patterned = schema["patternProperties"].as_object().and_then(|all| all.values().next());
        let others = patterned.or(schema.get("additionalProperties")).unwrap_or(&Value::Null);
        if others.is_object() || self.is_one_in(20) {
            for _ in 0..self.pick(&[0, 1, 2]) {
                fields.insert(self.pick(&["1", "22", "-1", "x"]).into(), self.value(others));
            }
        }
        Value::Object(fields)
    }

    fn stray(&mut self) -> Value {
        let strays =
            [json!(null), json!(true), json!(7), json!(-1.5), json!("x"), json!([]), json!({}), json!([1])];
        let objects = [json!({ "kind": "by" }), json!({ "names": ["a"] }), json!({ "limit": 5.0 })];
        self.pick(&[&strays[..], &objects[..]].concat())
    }
}

/// Both sides of every limit, except those of 64 bits, which are not published.
fn integers() -> Vec<Value> {
    let limits = [1, 9, 50, 127, 255, 32_767, 65_535, 2_147_483_647, 4_294_967_295, 9_007_199_254_740_992];
    let below = [0, -128, -32_768, -2_147_483_648_i64];
    let whole = limits
        .iter()
        .flat_map(|limit| [*limit, limit + 1])
        .chain(below.iter().flat_map(|limit| [*limit, limit - 1]));
    let written = [json!(5.0), json!(1e18), json!(1.5), json!(-0.0), json!(255.0), json!(i64::MAX)];
    whole.map(Value::from).chain(written).collect()
}
