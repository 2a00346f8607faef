//! The notes app in a window: `cargo run --manifest-path examples/notes-window/Cargo.toml`.

use notes_app::Notes;
use toolyard_ui::{Background, Embedded};

fn main() -> eframe::Result {
    let run = |creation: &eframe::CreationContext<'_>| {
        let ui = toolyard_egui::attach(&creation.egui_ctx);
        let offered = Embedded::new("Notes").start_in_background(ui)?;
        Ok(Box::new(Window { notes: Notes::default(), _offered: offered }) as Box<dyn eframe::App>)
    };
    eframe::run_native("Notes", eframe::NativeOptions::default(), Box::new(run))
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
