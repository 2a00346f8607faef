//! `when`: a condition in CEL, compiled once. Its size, its loops and what it is applied to are bounded, and whatever
//! goes wrong in it counts as an error.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use cel::{Context, Program, Value as CelValue};
use serde_json::Value;

use super::Who;
use super::loops::{Loops, Size};

const LONGEST: usize = 2_048;
/// The parser calls itself for each level.
const DEEPEST: usize = 24;
const MOST_LOOPS: usize = 2;
/// The maximum number of values in the arguments.
const MOST_VALUES: usize = 100_000;

/// A compiled condition.
#[derive(Clone)]
pub struct Condition {
    source: Arc<str>,
    program: Arc<Program>,
    loops: Loops,
}

impl fmt::Debug for Condition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Condition({})", self.source)
    }
}

impl PartialEq for Condition {
    fn eq(&self, other: &Self) -> bool {
        self.source == other.source
    }
}

impl Condition {
    /// Compiles a condition over `args`, `tool` and `who`; the error is one sentence.
    pub fn compile(source: &str) -> Result<Self, String> {
        if source.len() > LONGEST {
            return Err(format!("it is longer than {LONGEST} bytes"));
        }
        if depth(source) > DEEPEST {
            return Err(format!("it is nested more than {DEEPEST} levels deep"));
        }
        let compiled = catch_unwind(AssertUnwindSafe(|| Program::compile(source)));
        let program = compiled.map_err(|_| "it cannot be parsed".to_owned())?.map_err(|errors| {
            let text = errors.to_string();
            text.lines()
                .map(str::trim)
                .find(|line| !line.is_empty())
                .unwrap_or("it cannot be parsed")
                .to_owned()
        })?;
        let loops = Loops::of(program.expression())?;
        let count = loops.count;
        if count > MOST_LOOPS {
            return Err(format!("it has {count} loops (`all`, `exists`, `map` …), more than {MOST_LOOPS}"));
        }
        let known = ["args", "tool", "who"];
        let references = program.references();
        let unknown = references.variables().into_iter().find(|name| !known.contains(name));
        // Loops have variables of their own.
        if let Some(unknown) = unknown.filter(|_| count == 0) {
            return Err(format!("`{unknown}` is not known; there are `args`, `tool` and `who`"));
        }
        Ok(Self { source: source.into(), program: Arc::new(program), loops })
    }

    /// Whether it can be applied to these arguments in a bounded time.
    pub(super) fn check_size<R>(&self, who: &Who<'_, R>, args: &Value) -> Result<(), String> {
        let size = Size::of(args, who.roles.len(), MOST_VALUES);
        if size.values > MOST_VALUES {
            return Err(format!("the arguments have more than {MOST_VALUES} values"));
        }
        if !self.loops.can_afford(&size) {
            return Err("the arguments are too large for the loops of the condition".to_owned());
        }
        Ok(())
    }

    /// Whether it holds; an error if it is not a plain yes or no.
    pub fn holds<R: AsRef<str>>(&self, who: &Who<'_, R>, tool: &str, args: &Value) -> Result<bool, String> {
        self.check_size(who, args)?;
        let run = || {
            let mut context = Context::default();
            let roles: Vec<&str> = who.roles.iter().map(AsRef::as_ref).collect();
            // Else a condition on the name of a user could be evaded by an agent of that user.
            let (name, is_agent) = (who.user(), !who.parents.is_empty());
            let who =
                serde_json::json!({ "name": name, "roles": roles, "class": who.class, "is_agent": is_agent });
            for (name, value) in [("args", args), ("tool", &Value::from(tool)), ("who", &who)] {
                context.add_variable(name, value).map_err(|error| error.to_string())?;
            }
            match self.program.execute(&context) {
                Ok(CelValue::Bool(holds)) => Ok(holds),
                Ok(_) => Err("the condition is neither true nor false".to_owned()),
                Err(error) => Err(error.to_string()),
            }
        };
        catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|_| Err("the condition failed".to_owned()))
    }
}

/// How deep brackets, signs and choices are nested at most, whatever is in quotes.
fn depth(source: &str) -> usize {
    let mut open = 0_usize;
    let mut deepest = 0;
    let mut signs = 0;
    let mut choices = 0;
    for char in source.chars() {
        match char {
            '(' | '[' | '{' => open += 1,
            ')' | ']' | '}' => open = open.saturating_sub(1),
            '?' => choices += 1,
            _ => {}
        }
        signs = if matches!(char, '!' | '-') { signs + 1 } else { 0 };
        deepest = deepest.max(open + signs + choices);
    }
    deepest
}
