//! A list of notes: a field, a check box, a button, a notice that disappears by itself, and an archive to measure with.

use std::io;
use std::time::{Duration, Instant};

use toolyard_ui::Embedded;

/// How long the notice stays.
const NOTICE: Duration = Duration::from_millis(1500);
/// The environment variable with the number of notes in the archive, to measure how tools handle large windows.
const ARCHIVED: &str = "NOTES_APP_ARCHIVED";

/// Runs the app without a display, until the process ends.
pub fn run_in_memory(offer: Embedded) -> io::Result<()> {
    let headless = toolyard_egui::Headless::new(640.0, 400.0);
    let _offered = offer.start_in_background(headless.attach())?;
    let mut notes = Notes::from_environment();
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
    archive: Vec<String>,
}

impl Notes {
    /// Without notes, and with an archive as large as the environment requires.
    pub fn from_environment() -> Self {
        let archived = std::env::var(ARCHIVED).ok().and_then(|number| number.parse().ok());
        Self::with_archive(archived.unwrap_or(0))
    }

    /// Without notes, and with this many in the archive.
    pub fn with_archive(archived: usize) -> Self {
        let archive = (0..archived).map(|number| format!("Archived note {number}")).collect();
        Self { archive, ..Self::default() }
    }

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
        egui::ScrollArea::vertical().show(ui, |ui| {
            self.draw_list(ui);
            self.draw_archive(ui);
        });
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

    /// A click copies the title into the field.
    fn draw_archive(&mut self, ui: &mut egui::Ui) {
        for title in &self.archive {
            if ui.button(title).clicked() {
                self.title.clone_from(title);
            }
        }
    }
}
