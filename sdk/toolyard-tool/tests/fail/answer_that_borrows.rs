//! An answer is owned.

use toolyard_tool::tool;

struct Library(String);

/// Does it.
#[tool]
async fn search(library: &Library) -> &str {
    &library.0
}

fn main() {}
