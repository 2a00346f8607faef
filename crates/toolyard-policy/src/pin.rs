//! The record of tool definitions: what a tool was when it was first seen, how a new definition differs from that,
//! and whether the tool may be used before an operator has reviewed the difference.

mod book;
mod classify;
mod diff;
mod lock;
mod schema;
mod text;

pub use book::{Announced, Book, Reviewed, Terms};
pub use classify::classify;
pub use diff::{Difference, differences};
pub use lock::{LockFile, LockState, Tools};

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The class of a change of a definition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Class {
    /// Titles and descriptions.
    Wording,
    /// It accepts or returns more than before.
    Widened,
    /// It accepts or returns less than before.
    Narrowed,
    /// Its annotations promise less: it may now change or destroy things.
    Weakened,
    /// Its annotations promise more, which can exempt it from rules.
    Strengthened,
    /// Characters that people do not see.
    Hidden,
    /// Text that instructs a model beyond the use of the tool.
    Instructions,
    /// A tool that was not there when its server was recorded.
    Added,
    /// Anything else, such as icons or `_meta`.
    Other,
}

impl Class {
    pub const ALL: [(&'static str, Self); 9] = [
        ("wording", Self::Wording),
        ("widened", Self::Widened),
        ("narrowed", Self::Narrowed),
        ("weakened", Self::Weakened),
        ("strengthened", Self::Strengthened),
        ("hidden", Self::Hidden),
        ("instructions", Self::Instructions),
        ("added", Self::Added),
        ("other", Self::Other),
    ];

    /// The meaning of the class, for people.
    pub fn meaning(self) -> &'static str {
        match self {
            Self::Wording => "its wording changed",
            Self::Widened => "it accepts or returns more",
            Self::Narrowed => "it accepts or returns less",
            Self::Weakened => "its annotations promise less",
            Self::Strengthened => "its annotations promise more",
            Self::Hidden => "it has hidden characters",
            Self::Instructions => "it has instructions to the model",
            Self::Added => "it is new",
            Self::Other => "it changed in another way",
        }
    }
}

/// The action for a changed definition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Action {
    /// The new definition is recorded.
    Accept,
    /// The same, and the change is reported.
    #[default]
    Announce,
    /// The tool is not offered until an operator has approved the change.
    Hold,
}

/// The action for each class of change.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PinPolicy([Action; Class::ALL.len()]);

impl Default for PinPolicy {
    /// Changes are announced; those that a user should not discover by accident are held.
    fn default() -> Self {
        let mut policy = Self::all(Action::Announce);
        for class in [Class::Weakened, Class::Hidden, Class::Instructions] {
            policy.set(class, Action::Hold);
        }
        policy
    }
}

impl PinPolicy {
    pub fn all(action: Action) -> Self {
        Self([action; Class::ALL.len()])
    }

    pub fn set(&mut self, class: Class, action: Action) {
        self.0[class as usize] = action;
    }

    /// The strictest action for any of these.
    pub fn action(&self, classes: &[Class]) -> Action {
        classes.iter().map(|class| self.0[*class as usize]).max().unwrap_or_default()
    }
}

/// A tool that is not offered until its definition is approved.
#[derive(Clone, Debug, PartialEq)]
pub struct Held {
    pub tool: String,
    pub why: Why,
    /// From the definition that was accepted to the one that is offered now.
    pub differences: Vec<Difference>,
    /// The definition that is offered now.
    pub offered: Value,
}

/// Why a tool is held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Why {
    Changed(Vec<Class>),
    /// The record of what was accepted cannot be read, so nothing can be compared with it.
    DamagedRecord(String),
    /// It differs from the lock file.
    Locked(Vec<Class>),
    /// The lock file does not have it.
    NotInLock,
    /// The lock file cannot be read, so nothing that it covers can be compared.
    UnreadableLock(String),
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let meanings = |classes: &[Class]| {
            let meanings: Vec<&str> = classes.iter().map(|class| class.meaning()).collect();
            meanings.join(", ")
        };
        match self {
            Self::Changed(classes) => write!(f, "its definition changed ({})", meanings(classes)),
            Self::DamagedRecord(error) => {
                write!(f, "the record of accepted definitions cannot be read: {error}")
            }
            Self::Locked(classes) => {
                write!(f, "its definition differs from the lock file ({})", meanings(classes))
            }
            Self::NotInLock => f.write_str("the lock file does not have it"),
            Self::UnreadableLock(error) => write!(f, "the lock file that covers it cannot be read: {error}"),
        }
    }
}

impl Held {
    /// Whether `toolyard approve` can accept it; a lock file is changed by `toolyard lock` only.
    pub fn is_locked(&self) -> bool {
        !matches!(self.why, Why::Changed(_) | Why::DamagedRecord(_))
    }
}
