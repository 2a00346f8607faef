//! Ranks tools by what a query asks for: the words of a tool's name count most, then those of its title, parameters and
//! description.

use crate::{Document, Index, terms};

const NAME_WEIGHT: f32 = 5.0;
const TITLE_WEIGHT: f32 = 2.0;
const DESCRIPTION_WEIGHT: f32 = 1.0;
const PARAMETER_WEIGHT: f32 = 0.5;

/// The weight of a synonym, relative to the given word.
const SYNONYM_WEIGHT: f32 = 0.6;

/// Stems of words with which questions are asked, and which do not describe a tool.
const ASKING: [&str; 30] = [
    "all", "am", "can", "did", "do", "doe", "hav", "how", "i", "into", "long", "m", "my", "now", "on",
    "some", "s", "ther", "thes", "up", "wa", "what", "wher", "who", "whos", "why", "will", "you", "your",
    "want",
];

/// Words that people use for what tools name with another word of the same line.
const SYNONYMS: [&str; 30] = [
    "create make add new",
    "create open insert post",
    "delete remove drop forget",
    "update change edit modify replace set patch close",
    "get retrieve read show",
    "list show get which",
    "search find lookup query",
    "directory folder",
    "image picture photo media",
    "comment reply answer note engagement",
    "repository repo project",
    "execute run command",
    "record row entry",
    "field column property",
    "relation link associate association",
    "elevation height altitude",
    "count many number",
    "review approve reject",
    "multiple several batch",
    "fetch download get",
    "url page web site website",
    "tree structure",
    "schema fields",
    "status state check finished",
    "size large",
    "upload attach",
    "user member people who",
    "diff compare difference",
    "request http",
    "distance far",
];

/// The words by which a tool can be found.
#[derive(Clone, Debug, Default)]
pub struct ToolText {
    /// `server:tool`
    pub id: String,
    pub title: String,
    pub description: String,
    /// The name and the description of each parameter.
    pub parameters: Vec<(String, String)>,
}

/// An index of tools, in the order in which they were given.
#[derive(Debug, Default)]
pub struct ToolIndex(Index);

impl ToolIndex {
    pub fn new(tools: impl IntoIterator<Item = ToolText>) -> Self {
        let mut index = Index::default();
        for tool in tools {
            index.add(&document(&tool));
        }
        Self(index)
    }

    /// The places of the tools that match, best first; ties in the order in which they were given.
    pub fn ranked(&self, query: &str) -> Vec<usize> {
        let scores = self.0.scores_of(&alternatives(query));
        let mut places: Vec<usize> = (0..scores.len()).filter(|place| scores[*place] > 0.0).collect();
        places.sort_by(|a, b| scores[*b].total_cmp(&scores[*a]));
        places
    }
}

/// The words of a query that describe a tool, each with the words that tools use for the same.
fn alternatives(query: &str) -> Vec<Vec<(String, f32)>> {
    let mut words = terms(query);
    let describes = |word: &String| !ASKING.contains(&word.as_str());
    if words.iter().any(describes) {
        words.retain(describes);
    }
    words.into_iter().map(with_synonyms).collect()
}

fn with_synonyms(word: String) -> Vec<(String, f32)> {
    let groups = SYNONYMS.iter().filter(|group| group.split(' ').any(|other| stems(other, &word)));
    let others = groups.flat_map(|group| group.split(' ')).flat_map(terms).filter(|other| *other != word);
    let others: Vec<(String, f32)> = others.map(|other| (other, SYNONYM_WEIGHT)).collect();
    [(word, 1.0)].into_iter().chain(others).collect()
}

fn stems(other: &str, word: &str) -> bool {
    terms(other).iter().any(|stem| stem == word)
}

fn document(tool: &ToolText) -> Document {
    let document = Document::default()
        .with(&tool.id, NAME_WEIGHT)
        .with(&tool.title, TITLE_WEIGHT)
        .with(&tool.description, DESCRIPTION_WEIGHT);
    tool.parameters.iter().fold(document, |document, (name, description)| {
        document.with(name, PARAMETER_WEIGHT).with(description, PARAMETER_WEIGHT)
    })
}
