//! Let agents see and operate an egui app, with or without a display.
//!
//! In an eframe app, two lines are enough:
//!
//! ```no_run
//! # fn app(egui_context: &egui::Context) -> std::io::Result<()> {
//! let ui = toolyard_egui::attach(egui_context);
//! let _offered = toolyard_ui::Embedded::new("Notes").start_in_background(ui)?;
//! # Ok(())
//! # }
//! ```
//!
//! Without a display, [`Headless`] runs the same code and draws its frames in memory, on any machine.
#![warn(missing_docs)]

mod attach;
mod headless;
mod input;
mod raster;

pub use attach::{Attached, attach};
pub use headless::{Headless, Stopper};
