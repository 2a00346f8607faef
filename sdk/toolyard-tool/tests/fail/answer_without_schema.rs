//! An answer needs a schema.

use toolyard_tool::tool;

use serde::Serialize;

#[derive(Serialize)]
struct Hits {
    count: u32,
}

/// Does it.
#[tool]
async fn search() -> Hits {
    Hits { count: 1 }
}

fn main() {}
