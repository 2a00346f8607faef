//! Searches that ask several questions: other wordings of the question, or its parts.

use std::collections::HashMap;

use tokio::runtime::Handle;
use toolyard_tool::{Context, ToolError};

use super::{Answers, answers};
use crate::index::{Answer, Filter, rank};
use crate::project::Place;
use crate::tools::{Code, reword};

/// Results of a decomposed search per part.
const PER_PART: usize = 5;

/// A search that asks several questions.
pub(super) struct Searching<'a> {
    pub(super) code: &'a Code,
    pub(super) context: &'a Context,
    pub(super) place: &'a Place,
    pub(super) provider: Option<&'a str>,
    pub(super) filter: &'a Filter,
    pub(super) limit: usize,
}

impl Searching<'_> {
    fn answers(&self, query: &str, limit: usize) -> Result<Answers, ToolError> {
        answers(self.code, self.place, self.provider, query, self.filter, limit)
    }

    /// Searches for other wordings of the question, too.
    pub(super) fn expanded(&self, query: &str, count: usize) -> Result<Answers, ToolError> {
        let whole = self.answers(query, self.limit)?;
        let wordings = reword::wordings(self.code, self.context, query, count);
        match Handle::current().block_on(wordings) {
            Err(why) => {
                let note = format!("Not expanded into {count} wordings: {}.", why.to_text());
                Ok(whole.noted(note))
            }
            Ok(wordings) => {
                let note = format!("Also searched for: {}.", wordings.join("; "));
                self.merged(whole, &wordings, self.limit, note)
            }
        }
    }

    /// Searches for each part of the question. Without a model, the parts are what `and` and commas join.
    pub(super) fn decomposed(&self, query: &str) -> Result<Answers, ToolError> {
        let whole = self.answers(query, self.limit)?;
        let by_model = Handle::current().block_on(reword::parts(self.code, self.context, query));
        let (parts, no_model) = match by_model {
            Ok(parts) => (parts, String::new()),
            Err(why) => {
                let note =
                    format!(" No model was used: {}; parts are what `and` and commas join.", why.to_text());
                (parts(query), note)
            }
        };
        if parts.len() < 2 {
            return Ok(whole.noted(format!("Not decomposed: the query asks for one thing.{no_model}")));
        }
        let note = format!("Searched for each part: {}.{no_model}", parts.join("; "));
        let nothing = Answers { results: Vec::new(), ..whole };
        self.merged(nothing, &parts, PER_PART, note)
    }

    /// Adds what further questions find, each with its best answers. Scores of different questions are compared as
    /// shares of the best score of each.
    fn merged(
        &self,
        first: Answers,
        questions: &[String],
        each: usize,
        note: String,
    ) -> Result<Answers, ToolError> {
        let mut best: HashMap<(String, usize), Answer> = HashMap::new();
        let mut lists = vec![first.results];
        for question in questions.iter().filter(|question| rank::has_words(question)) {
            lists.push(self.answers(question, each)?.results);
        }
        for mut list in lists {
            let top = list.first().map_or(1.0, |answer| answer.score);
            for answer in &mut list {
                answer.score = (answer.score / top * 1000.0).round() / 1000.0;
            }
            for answer in list {
                let known = best.entry((answer.file.clone(), answer.line)).or_insert_with(|| answer.clone());
                known.score = known.score.max(answer.score);
            }
        }
        let mut results: Vec<Answer> = best.into_values().collect();
        results.sort_by(|a, b| {
            b.score.total_cmp(&a.score).then_with(|| (&a.file, a.line).cmp(&(&b.file, b.line)))
        });
        results.truncate(self.limit);
        Ok(Answers { results, ..first }.noted(note))
    }
}

/// The parts of a query that `and`, a comma or a semicolon joins, if each has words of its own.
fn parts(query: &str) -> Vec<String> {
    let separated = query.replace(" and ", ";").replace(',', ";");
    let parts: Vec<String> = separated
        .split(';')
        .map(|part| part.trim().to_owned())
        .filter(|part| part.split_whitespace().count() >= 2)
        .collect();
    if parts.len() > 4 { vec![query.to_owned()] } else { parts }
}

/// Two lists in turn, each result once.
pub(super) fn both(first: Vec<Answer>, second: Vec<Answer>, limit: usize) -> Vec<Answer> {
    let mut merged: Vec<Answer> = Vec::new();
    let (mut first, mut second) = (first.into_iter(), second.into_iter());
    loop {
        let (one, other) = (first.next(), second.next());
        if (one.is_none() && other.is_none()) || merged.len() >= limit {
            merged.truncate(limit);
            return merged;
        }
        for answer in [one, other].into_iter().flatten() {
            if merged.iter().all(|known| (&known.file, known.line) != (&answer.file, answer.line)) {
                merged.push(answer);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::parts;

    #[test]
    fn a_question_with_several_parts_is_taken_apart() {
        assert_eq!(
            parts("open a file and close the socket, then retry twice"),
            ["open a file", "close the socket", "then retry twice"]
        );
        assert_eq!(parts("read and write"), Vec::<String>::new());
        assert_eq!(parts("how tokens are refreshed"), ["how tokens are refreshed"]);
    }
}
