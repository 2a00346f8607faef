//! A tool may move between threads.

use toolyard_tool::tool;

use std::rc::Rc;

/// Does it.
#[tool]
async fn search() -> u32 {
    let count = Rc::new(1);
    std::future::ready(()).await;
    *count
}

fn main() {}
