//! The questions of a stored task so far. A run after a restart gets the answers that were given before it, and
//! a question that was open can be answered before the run asks it again.

use toolyard_model::Ask;
use toolyard_proto::{Method, Raw};

use crate::tasks::store::TaskQuestion;

/// Empty for a task that cannot be resumed.
#[derive(Debug, Default)]
pub(in crate::tasks) struct Past {
    is_kept: bool,
    /// Answers, by key.
    answers: Vec<TaskQuestion>,
    /// Open when the earlier run was interrupted, and not asked again yet.
    open: Vec<(String, Ask)>,
}

impl Past {
    /// For a run that can be resumed, with the questions of the run before it.
    pub(in crate::tasks) fn of(questions: Vec<TaskQuestion>) -> Self {
        let (answers, open): (Vec<_>, Vec<_>) = questions.into_iter().partition(|one| one.answer.is_some());
        let open = open.into_iter().map(|one| (one.key.clone(), ask_of(&one))).collect();
        Self { is_kept: true, answers, open }
    }

    pub(super) fn open(&self) -> impl Iterator<Item = (String, Ask)> + '_ {
        self.open.iter().cloned()
    }

    /// The answer to a question that is asked again, if it is the same question.
    pub(super) fn answer(&mut self, key: &str, ask: &Ask) -> Option<Raw> {
        self.open.retain(|(open, _)| open != key);
        let asked = question(key, ask);
        let before = self.answers.iter().find(|one| one.key == key)?;
        let is_same = before.method == asked.method && before.params == asked.params;
        before.answer.clone().filter(|_| is_same).map(Raw::from)
    }

    pub(super) fn answered(&mut self, key: &str, ask: &Ask, answer: &Raw) {
        if !self.is_kept {
            return;
        }
        self.answers.retain(|one| one.key != key);
        self.answers.push(TaskQuestion { answer: answer.read().ok(), ..question(key, ask) });
    }

    /// Answers to open questions of the earlier run; false if there is none among them.
    pub(super) fn take_answers(&mut self, answers: &Raw) -> bool {
        let (answered, open): (Vec<_>, _) =
            self.open.drain(..).partition(|(key, _)| answers.member(key).is_some());
        self.open = open;
        for (key, ask) in &answered {
            if let Some(answer) = answers.member(key) {
                self.answered(key, ask, &answer);
            }
        }
        !answered.is_empty()
    }

    /// All questions, as they are stored.
    pub(super) fn answers(&self) -> &[TaskQuestion] {
        &self.answers
    }
}

/// A question as it is stored, without an answer.
pub(super) fn question(key: &str, ask: &Ask) -> TaskQuestion {
    TaskQuestion {
        key: key.to_owned(),
        method: ask.method.to_string(),
        params: ask.params.as_ref().and_then(|params| params.read().ok()),
        answer: None,
    }
}

/// A stored question as it is asked.
pub(in crate::tasks) fn ask_of(question: &TaskQuestion) -> Ask {
    Ask { method: Method::new(&question.method), params: question.params.clone().map(Raw::from) }
}
