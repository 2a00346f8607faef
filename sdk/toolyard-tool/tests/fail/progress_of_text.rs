//! Progress is a number.

use toolyard_tool::Context;

fn main() {
    Context::detached().progress("half", 2);
    Context::detached().progress(1, "two");
}
