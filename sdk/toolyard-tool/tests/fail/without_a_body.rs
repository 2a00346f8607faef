//! A tool has a body.

use toolyard_tool::tool;

trait Search {
    /// Does it.
    #[tool]
    fn search();
}

fn main() {}
