//! The notes app in a window: `cargo run --manifest-path examples/notes-window/Cargo.toml`. Where there is no display,
//! the same program draws in memory.

use std::error::Error;

use notes_app::Notes;
use toolyard_ui::{Background, Embedded};

fn main() -> Result<(), Box<dyn Error>> {
    let offer = Embedded::new("Notes");
    if offer.is_headless() {
        return Ok(notes_app::run_in_memory(offer)?);
    }
    let run = |creation: &eframe::CreationContext<'_>| {
        let ui = toolyard_egui::attach(&creation.egui_ctx);
        let offered = offer.start_in_background(ui)?;
        Ok(Box::new(Window { notes: Notes::from_environment(), _offered: offered }) as Box<dyn eframe::App>)
    };
    Ok(eframe::run_native("Notes", eframe::NativeOptions::default(), Box::new(run))?)
}

struct Window {
    notes: Notes,
    _offered: Background,
}

impl eframe::App for Window {
    fn ui(&mut self, ui: &mut egui::Ui, _frame: &mut eframe::Frame) {
        egui::CentralPanel::default().show(ui, |ui| self.notes.draw(ui));
    }
}
