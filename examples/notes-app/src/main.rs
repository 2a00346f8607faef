//! `cargo run -p notes-app` runs the app without a display; `--features window` opens a window. In both cases agents
//! behind Toolyard can see and operate it.

use std::error::Error;

use notes_app::Notes;
use toolyard_ui::Embedded;

#[cfg(feature = "window")]
fn main() -> Result<(), Box<dyn Error>> {
    let run = |creation: &eframe::CreationContext<'_>| {
        let ui = toolyard_egui::attach(&creation.egui_ctx);
        let offered = Embedded::new("Notes").start_in_background(ui)?;
        Ok(Box::new(Window { notes: Notes::default(), _offered: offered }) as Box<dyn eframe::App>)
    };
    eframe::run_native("Notes", eframe::NativeOptions::default(), Box::new(run))?;
    Ok(())
}

#[cfg(feature = "window")]
struct Window {
    notes: Notes,
    _offered: toolyard_ui::Background,
}

#[cfg(feature = "window")]
impl eframe::App for Window {
    fn ui(&mut self, ui: &mut egui::Ui, _frame: &mut eframe::Frame) {
        egui::CentralPanel::default().show(ui, |ui| self.notes.draw(ui));
    }
}

#[cfg(not(feature = "window"))]
fn main() -> Result<(), Box<dyn Error>> {
    let headless = toolyard_egui::Headless::new(640.0, 400.0);
    let _offered = Embedded::new("Notes").headless(true).start_in_background(headless.attach())?;
    let mut notes = Notes::default();
    headless.run(|ui| {
        egui::CentralPanel::default().show(ui, |ui| notes.draw(ui));
    });
    Ok(())
}
