//! Other wordings of a question, and its parts, from the model that `[packs.code.reword]` names.

use serde_json::Value;
use toolyard_tool::{Context, ToolError};

use super::Code;
use crate::search::shorten;

/// Parts of a question that are searched for.
pub(crate) const MOST_PARTS: usize = 4;
/// A longer line is not a wording of a question.
const LONGEST: usize = 300;

/// Why a question was searched as it is.
pub(crate) enum NotReworded {
    NoModel,
    Failed(ToolError),
}

impl NotReworded {
    pub(crate) fn to_text(&self) -> String {
        match self {
            Self::NoModel => "no model is configured".to_owned(),
            Self::Failed(error) => shorten(error.message(), LONGEST),
        }
    }
}

/// Up to `count` other wordings of a question.
pub(crate) async fn wordings(
    code: &Code,
    context: &Context,
    query: &str,
    count: usize,
) -> Result<Vec<String>, NotReworded> {
    let prompt = format!(
        "Reword this question about source code in {count} different ways. Use words that could appear in the code \
         or in its comments. Answer with one wording per line and nothing else.\n\n{query}"
    );
    ask(code, context, query, prompt, count).await
}

/// The separate things that a question asks for.
pub(crate) async fn parts(code: &Code, context: &Context, query: &str) -> Result<Vec<String>, NotReworded> {
    let prompt = format!(
        "This question about source code may ask for several things. Answer with one line for each thing, at most \
         {MOST_PARTS}, and nothing else.\n\n{query}"
    );
    ask(code, context, query, prompt, MOST_PARTS).await
}

async fn ask(
    code: &Code,
    context: &Context,
    query: &str,
    prompt: String,
    count: usize,
) -> Result<Vec<String>, NotReworded> {
    let config = code.reword.as_ref().ok_or(NotReworded::NoModel)?;
    let mut arguments = config.arguments.clone();
    arguments.insert(config.prompt.clone(), Value::String(prompt));
    let answer = async { context.tools()?.call(&config.tool, arguments).await?.into_result() };
    let answer = answer.await.map_err(NotReworded::Failed)?;
    let lines = lines(&answer.text(), query, count);
    if lines.is_empty() {
        let message = format!("`{}` answered without a wording", config.tool);
        return Err(NotReworded::Failed(ToolError::new(message)));
    }
    Ok(lines)
}

/// The lines of an answer without their bullets and numbers.
fn lines(answer: &str, query: &str, count: usize) -> Vec<String> {
    let is_mark = |c: char| c.is_ascii_digit() || matches!(c, '-' | '*' | '•' | '.' | ')' | ' ' | '"');
    let lines =
        answer.lines().map(|line| line.trim().trim_start_matches(is_mark).trim_end_matches('"').trim());
    let usable = |line: &&str| !line.is_empty() && line.chars().count() <= LONGEST && *line != query;
    lines.filter(usable).take(count).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bullets_numbers_and_the_question_itself_are_dropped() {
        let answer = "1. open a file\n- \"read its bytes\"\n\nhow is it read\n* fourth\n";
        assert_eq!(lines(answer, "how is it read", 3), ["open a file", "read its bytes", "fourth"]);
        assert_eq!(lines(&"x".repeat(400), "q", 3), Vec::<String>::new());
    }
}
