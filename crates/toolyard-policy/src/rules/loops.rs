//! Limits the cost of the loops of a condition. A condition cannot be stopped once it runs, so its cost is estimated
//! from its form and the size of the arguments, and a condition that could take too long is not run.

use cel::common::ast::{CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedExpr};
use serde_json::Value;

/// The maximum cost of all passes through loops, in visited values: about 50 ms.
const MOST_COST: usize = 4_000_000;
/// The fixed cost of one pass.
const PASS: usize = 100;
/// The cost of compiling the pattern of `matches`, which happens in each pass.
const PATTERN: usize = 10_000;
/// How many bytes of text cost as much as one value.
const BYTES_PER_VALUE: usize = 64;

/// The loops of one condition.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Loops {
    pub(super) count: usize,
    /// How many loops are within each other.
    depth: usize,
    /// How many patterns are within loops.
    patterns: usize,
}

/// How large the arguments of a call are.
#[derive(Debug, Default)]
pub(super) struct Size {
    /// Counted no further than needed.
    pub(super) values: usize,
    bytes: usize,
    /// The size of the largest array or object.
    longest: usize,
}

impl Loops {
    /// The loops of an expression; the error is one sentence.
    pub(super) fn of(expression: &IdedExpr) -> Result<Self, String> {
        let mut loops = Self::default();
        loops.add(expression, 0)?;
        Ok(loops)
    }

    /// Whether the condition ends soon with arguments of this size, whatever they are.
    pub(super) fn can_afford(&self, size: &Size) -> bool {
        if self.count == 0 {
            return true;
        }
        let longest = size.longest.max(1);
        let passes = (0..self.depth).fold(1_usize, |passes, _| passes.saturating_mul(longest));
        let each = PASS + self.patterns * PATTERN + size.values + size.bytes / BYTES_PER_VALUE;
        passes.saturating_mul(each) <= MOST_COST
    }

    fn add(&mut self, expression: &IdedExpr, depth: usize) -> Result<(), String> {
        match &expression.expr {
            Expr::Call(call) => self.add_call(call, depth),
            Expr::Comprehension(own) => self.add_loop(own, depth),
            Expr::List(list) => list.elements.iter().try_for_each(|one| self.add(one, depth)),
            Expr::Map(map) => map.entries.iter().try_for_each(|one| self.add_entry(&one.expr, depth)),
            Expr::Struct(own) => own.entries.iter().try_for_each(|one| self.add_entry(&one.expr, depth)),
            Expr::Select(select) => self.add(&select.operand, depth),
            Expr::Unspecified | Expr::Ident(_) | Expr::Literal(_) => Ok(()),
        }
    }

    fn add_call(&mut self, call: &CallExpr, depth: usize) -> Result<(), String> {
        if call.func_name == "matches" {
            // A pattern from the arguments could be one that takes long to compile.
            if !matches!(call.args.last().map(|pattern| &pattern.expr), Some(Expr::Literal(_))) {
                return Err("the pattern of `matches` must be a text".to_owned());
            }
            self.patterns += usize::from(depth > 0);
        }
        call.target.iter().try_for_each(|target| self.add(target, depth))?;
        call.args.iter().try_for_each(|one| self.add(one, depth))
    }

    fn add_loop(&mut self, own: &ComprehensionExpr, depth: usize) -> Result<(), String> {
        self.count += 1;
        self.depth = self.depth.max(depth + 1);
        // What is looped over is evaluated once, the rest for each of its values.
        self.add(&own.iter_range, depth)?;
        self.add(&own.accu_init, depth)?;
        [&own.loop_cond, &own.loop_step, &own.result].into_iter().try_for_each(|one| self.add(one, depth + 1))
    }

    fn add_entry(&mut self, entry: &EntryExpr, depth: usize) -> Result<(), String> {
        match entry {
            EntryExpr::StructField(field) => self.add(&field.value, depth),
            EntryExpr::MapEntry(entry) => {
                self.add(&entry.key, depth)?;
                self.add(&entry.value, depth)
            }
        }
    }
}

impl Size {
    /// The size of the arguments for a principal with `roles` roles. At most `most` values are counted.
    pub(super) fn of(args: &Value, roles: usize, most: usize) -> Self {
        let mut size = Self { longest: roles, ..Self::default() };
        size.add(args, most);
        size
    }

    fn add(&mut self, value: &Value, most: usize) {
        self.values += 1;
        match value {
            Value::String(text) => self.bytes += text.len(),
            Value::Array(items) => {
                self.longest = self.longest.max(items.len());
                self.add_all(items.iter(), most);
            }
            Value::Object(members) => {
                self.longest = self.longest.max(members.len());
                self.bytes += members.keys().map(String::len).sum::<usize>();
                self.add_all(members.values(), most);
            }
            _ => {}
        }
    }
    fn add_all<'a>(&mut self, values: impl Iterator<Item = &'a Value>, most: usize) {
        for value in values {
            if self.values > most {
                return;
            }
            self.add(value, most);
        }
    }
}
