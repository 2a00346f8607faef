//! Finds tools by words, through an index that a view makes when it is first searched.

use std::sync::Arc;

use toolyard_proto::Raw;
use toolyard_proto::splice::members;
use toolyard_rank::tools::{ToolIndex, ToolText};

use super::{Entry, ViewCatalog};

/// The searchable texts of a view, as they were when the view was made.
#[derive(Debug)]
pub(crate) struct Findable {
    entries: Vec<Arc<Entry>>,
    index: ToolIndex,
}

impl Findable {
    pub(super) fn of(view: &ViewCatalog) -> Self {
        let entries: Vec<Arc<Entry>> = view.findable_tools().cloned().collect();
        let index = ToolIndex::new(entries.iter().map(|entry| text_of(entry)));
        Self { entries, index }
    }

    /// How many tools there are to find.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// The best matches that `is_seen`, best first.
    pub(crate) fn search(
        &self,
        query: &str,
        limit: usize,
        is_seen: impl Fn(&Entry) -> bool,
    ) -> Vec<&Arc<Entry>> {
        let ranked = self.index.ranked(query).into_iter().map(|place| &self.entries[place]);
        ranked.filter(|entry| is_seen(entry)).take(limit).collect()
    }
}

fn text_of(entry: &Entry) -> ToolText {
    let text = |path: &[&str]| entry.own.at(path).and_then(|raw| raw.as_string()).unwrap_or_default();
    let parameters = entry.own.at(&["inputSchema", "properties"]);
    ToolText {
        id: entry.canonical.to_string(),
        title: text(&["title"]),
        description: text(&["description"]),
        parameters: parameters.iter().flat_map(parameter_texts).collect(),
    }
}

/// The name and the description of each parameter.
fn parameter_texts(properties: &Raw) -> Vec<(String, String)> {
    let one = |member: toolyard_proto::splice::Member| {
        let name = properties.slice(member.key.at).as_string().unwrap_or_default();
        let description = properties.slice(member.value).member("description");
        (name, description.and_then(|text| text.as_string()).unwrap_or_default())
    };
    members(properties.as_bytes()).map(one).collect()
}
