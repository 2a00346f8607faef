//! The documented edits: how names, URIs and ids of tasks look where many upstreams are shown together.

use serde_json::Value;

use super::wire::Request;

/// The upstream's id in the gateway.
pub(crate) const ID: &str = "up";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum View {
    /// The server itself.
    Direct,
    /// `/mcp/{upstream}`
    Alone,
    /// `/mcp`
    Everything,
}

impl View {
    /// A request to the server itself, as it is put to this view.
    pub(crate) fn request(self, request: &Request) -> Request {
        let mut request = request.clone();
        if self != Self::Everything {
            return request;
        }
        match request.method.as_str() {
            "tools/call" | "prompts/get" => show(&mut request.params["name"], shown_name),
            "resources/read" | "resources/subscribe" | "resources/unsubscribe" => {
                show(&mut request.params["uri"], shown_uri);
            }
            "completion/complete" if request.params["ref"]["type"] == "ref/prompt" => {
                show(&mut request.params["ref"]["name"], shown_name);
            }
            "completion/complete" => show(&mut request.params["ref"]["uri"], shown_uri),
            _ => {}
        }
        request
    }

    /// The server's own answer, as it must arrive through this view.
    pub(crate) fn answer(self, answer: &str) -> String {
        if self != Self::Everything {
            return answer.to_owned();
        }
        let answer = edit_after(answer, r#""uri":""#, shown_uri);
        let answer = edit_after(&answer, r#""uriTemplate":""#, shown_uri);
        edit_after(&answer, r#""taskId":""#, |task| format!("{ID}.{task}"))
    }

    /// An entry of a list in which things are found by name.
    pub(crate) fn named_entry(self, entry: &str) -> String {
        if self != Self::Everything {
            return entry.to_owned();
        }
        let own = name_of(entry);
        let (own, shown) = (format!(r#""name":"{own}""#), format!(r#""name":"{}""#, shown_name(&own)));
        assert_eq!(entry.matches(&own).count(), 1, "it is not clear which is the name: {entry}");
        entry.replace(&own, &shown)
    }
}

/// The name of an entry of a list.
pub(crate) fn name_of(entry: &str) -> String {
    let entry: Value = serde_json::from_str(entry).unwrap();
    entry["name"].as_str().expect("an entry has a name").to_owned()
}

fn show(value: &mut Value, shown: impl Fn(&str) -> String) {
    *value = shown(value.as_str().expect("names and URIs are texts")).into();
}

fn shown_name(own: &str) -> String {
    format!("{ID}__{own}")
}

fn shown_uri(own: &str) -> String {
    let (scheme, rest) = own.split_once("://").expect("all URIs here have an authority");
    format!("yard+{scheme}://{ID}/{rest}")
}

/// Edits every JSON string that follows `key`. In a text that holds JSON, quotes are escaped, so it is left alone.
fn edit_after(answer: &str, key: &str, edit: impl Fn(&str) -> String) -> String {
    let mut pieces = answer.split(key);
    let mut out = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let (value, rest) = piece.split_once('"').expect("a string ends");
        out.extend([key, &edit(value), "\"", rest]);
    }
    out
}
