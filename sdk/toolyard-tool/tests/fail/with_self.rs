//! A tool is not a method.

use toolyard_tool::tool;

struct Library;

impl Library {
    /// Does it.
    #[tool]
    async fn search(&self) {}
}

fn main() {}
