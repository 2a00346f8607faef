//! A list of notes: a field, a check box, a button, and a notice that disappears by itself.

use std::io;
use std::time::{Duration, Instant};

use toolyard_ui::Embedded;

/// How long the notice stays.
const NOTICE: Duration = Duration::from_millis(1500);

/// Runs the app without a display, until the process ends.
pub fn run_in_memory(offer: Embedded) -> io::Result<()> {
    let headless = toolyard_egui::Headless::new(640.0, 400.0);
    let _offered = offer.start_in_background(headless.attach())?;
    let mut notes = Notes::default();
    headless.run(|ui| {
        egui::CentralPanel::default().show(ui, |ui| notes.draw(ui));
    });
    Ok(())
}

/// The state of the app.
#[derive(Debug, Default)]
pub struct Notes {
    title: String,
    is_urgent: bool,
    list: Vec<(String, bool)>,
    added: Option<Instant>,
}

impl Notes {
    /// Draws a frame and handles its input.
    pub fn draw(&mut self, ui: &mut egui::Ui) {
        ui.heading("Notes");
        ui.horizontal(|ui| {
            let label = ui.label("Title");
            ui.text_edit_singleline(&mut self.title).labelled_by(label.id);
            ui.checkbox(&mut self.is_urgent, "Urgent");
            let can_add = !self.title.trim().is_empty();
            if ui.add_enabled(can_add, egui::Button::new("Add")).clicked() {
                self.add();
            }
        });
        self.draw_notice(ui);
        ui.separator();
        egui::ScrollArea::vertical().show(ui, |ui| self.draw_list(ui));
    }

    fn add(&mut self) {
        self.list.push((std::mem::take(&mut self.title), self.is_urgent));
        self.is_urgent = false;
        self.added = Some(Instant::now());
    }

    fn draw_notice(&mut self, ui: &mut egui::Ui) {
        let Some(left) = self.added.and_then(|added| NOTICE.checked_sub(added.elapsed())) else {
            self.added = None;
            return;
        };
        ui.label("Note added");
        ui.ctx().request_repaint_after(left);
    }

    fn draw_list(&mut self, ui: &mut egui::Ui) {
        let mut removed = None;
        for (position, (title, is_urgent)) in self.list.iter().enumerate() {
            ui.horizontal(|ui| {
                ui.label(if *is_urgent { format!("{title} (urgent)") } else { title.clone() });
                if ui.button(format!("Remove {title}")).clicked() {
                    removed = Some(position);
                }
            });
        }
        if let Some(position) = removed {
            self.list.remove(position);
        }
    }
}
