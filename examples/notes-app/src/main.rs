//! `cargo run -p notes-app` runs the app without a display; agents behind Toolyard can see and operate it.
//! `examples/notes-window` is the same app in a window, where there is a display.

use toolyard_ui::Embedded;

fn main() -> std::io::Result<()> {
    notes_app::run_in_memory(Embedded::new("Notes"))
}
