//! An error is an `Error`.

use toolyard_tool::tool;

struct Oops;

/// Does it.
#[tool]
async fn search() -> Result<String, Oops> {
    Err(Oops)
}

fn main() {}
