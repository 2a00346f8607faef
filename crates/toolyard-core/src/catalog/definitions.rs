//! What one upstream says it offers, in its own bytes.

use toolyard_proto::{Method, Raw};
use toolyard_transport::Greeting;

/// The four lists of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ListKind {
    Tools,
    Resources,
    Templates,
    Prompts,
}

impl ListKind {
    pub const ALL: [Self; 4] = [Self::Tools, Self::Resources, Self::Templates, Self::Prompts];

    pub fn method(self) -> Method {
        match self {
            Self::Tools => Method::TOOLS_LIST,
            Self::Resources => Method::RESOURCES_LIST,
            Self::Templates => Method::TEMPLATES_LIST,
            Self::Prompts => Method::PROMPTS_LIST,
        }
    }

    /// The member of the result that holds the list.
    pub fn key(self) -> &'static str {
        match self {
            Self::Tools => "tools",
            Self::Resources => "resources",
            Self::Templates => "resourceTemplates",
            Self::Prompts => "prompts",
        }
    }

    pub fn capability(self) -> &'static str {
        match self {
            Self::Tools => "tools",
            Self::Resources | Self::Templates => "resources",
            Self::Prompts => "prompts",
        }
    }

    pub(crate) fn index(self) -> usize {
        self as usize
    }
}

#[derive(Clone, Debug)]
pub struct Definitions {
    pub greeting: Greeting,
    lists: [Vec<Raw>; 4],
}

impl Definitions {
    pub fn new(greeting: Greeting) -> Self {
        Self { greeting, lists: Default::default() }
    }

    pub fn list(&self, kind: ListKind) -> &[Raw] {
        &self.lists[kind.index()]
    }

    pub fn set(&mut self, kind: ListKind, entries: Vec<Raw>) {
        self.lists[kind.index()] = entries;
    }

    /// Whether answers of this upstream can carry URIs of its resources.
    pub fn has_resources(&self) -> bool {
        self.greeting.capabilities.member("resources").is_some()
    }
}
