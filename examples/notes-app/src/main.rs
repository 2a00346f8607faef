//! `cargo run -p notes-app` runs the app without a display; agents behind Toolyard can see and operate it.
//! `examples/notes-window` is the same app in a window.

use std::io;

use notes_app::Notes;
use toolyard_ui::Embedded;

fn main() -> io::Result<()> {
    let headless = toolyard_egui::Headless::new(640.0, 400.0);
    let _offered = Embedded::new("Notes").headless(true).start_in_background(headless.attach())?;
    let mut notes = Notes::default();
    headless.run(|ui| {
        egui::CentralPanel::default().show(ui, |ui| notes.draw(ui));
    });
    Ok(())
}
