//! An egui app without a display: the same code, frames in memory.

use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::time::{Duration, Instant};

use egui::{Context, FullOutput, RawInput, Rect, Vec2, ViewportCommand, ViewportId};

use crate::Attached;
use crate::raster::Canvas;

/// The longest sleep between two frames.
const LONGEST_SLEEP: Duration = Duration::from_hours(1);
/// The shortest time between two frames for which no agent waits, as on a display with 60 frames per second.
const FRAME: Duration = Duration::from_nanos(1_000_000_000 / 60);

/// An egui app without a display.
///
/// ```
/// # use toolyard_ui::Ui;
/// let headless = toolyard_egui::Headless::new(320.0, 200.0);
/// let attached = headless.attach();
/// let stop = headless.stopper();
/// let app = std::thread::spawn(move || headless.run(|ui| { let _ = ui.button("Save"); }));
/// let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
/// let tree = runtime.block_on(attached.tree()).unwrap();
/// assert!(tree.by_name("Save", Some("Button")).next().is_some());
/// stop.stop();
/// app.join().unwrap();
/// ```
#[derive(Debug)]
pub struct Headless {
    context: Context,
    size: Vec2,
    wakes: Receiver<Wake>,
    wake: SyncSender<Wake>,
}

#[derive(Debug)]
enum Wake {
    Frame(Duration),
    Stop,
}

/// Ends an app that runs without a display.
#[derive(Clone, Debug)]
pub struct Stopper(SyncSender<Wake>);

impl Stopper {
    /// Ends [`Headless::run`] after the current frame.
    pub fn stop(&self) {
        // An app that has ended needs no signal.
        let _ = self.0.send(Wake::Stop);
    }
}

impl Headless {
    /// A window of this size, in logical pixels, that exists in memory only.
    pub fn new(width: f32, height: f32) -> Self {
        let context = Context::default();
        let (wake, wakes) = mpsc::sync_channel(64);
        let callback = wake.clone();
        context.set_request_repaint_callback(move |request| {
            // If the queue is full, a frame is due anyway.
            let _ = callback.try_send(Wake::Frame(request.delay));
        });
        Self { context, size: Vec2::new(width, height), wakes, wake }
    }

    /// The context, for fonts and styles.
    pub fn context(&self) -> &Context {
        &self.context
    }

    /// Lets agents see and operate the app.
    pub fn attach(&self) -> Arc<Attached> {
        crate::attach(&self.context)
    }

    /// A handle that ends the app from another thread.
    pub fn stopper(&self) -> Stopper {
        Stopper(self.wake.clone())
    }

    /// Runs the app until it is stopped. It draws only when something asks for it: an animation at most 60 times per
    /// second, an agent at once.
    pub fn run(self, mut draw: impl FnMut(&mut egui::Ui)) {
        let started = Instant::now();
        let mut canvas = Canvas::default();
        loop {
            let began = Instant::now();
            let input = RawInput {
                screen_rect: Some(Rect::from_min_size(egui::Pos2::ZERO, self.size)),
                time: Some(started.elapsed().as_secs_f64()),
                focused: true,
                ..RawInput::default()
            };
            let output = self.context.run_ui(input, &mut draw);
            let delay = self.finish(output, &mut canvas);
            if self.sleep(began, delay).is_err() {
                return;
            }
        }
    }

    /// Draws what a frame has left, if a picture of it is wanted. Returns when the next frame is due.
    fn finish(&self, mut output: FullOutput, canvas: &mut Canvas) -> Duration {
        canvas.take_textures(&mut output.textures_delta);
        let root = output.viewport_output.get_mut(&ViewportId::ROOT);
        let (commands, delay) = root.map_or((Vec::new(), LONGEST_SLEEP), |root| {
            (std::mem::take(&mut root.commands), root.repaint_delay)
        });
        let callbacks = commands.into_iter().filter_map(|command| match command {
            ViewportCommand::Screenshot(callback) => Some(callback),
            _ => None,
        });
        let callbacks: Vec<_> = callbacks.collect();
        if !callbacks.is_empty() {
            let scale = output.pixels_per_point;
            let meshes = self.context.tessellate(std::mem::take(&mut output.shapes), scale);
            let background = self.context.global_style().visuals.panel_fill;
            let image = Arc::new(canvas.draw(self.size * scale, scale, background, &meshes));
            for callback in callbacks {
                callback.complete(image.clone());
            }
        }
        canvas.free_textures(&mut output.textures_delta);
        delay
    }

    /// Waits until the next frame is due, or until something asks for one.
    fn sleep(&self, began: Instant, delay: Duration) -> Result<(), ()> {
        let mut due = Instant::now() + delay.min(LONGEST_SLEEP);
        loop {
            let next = if crate::attach::is_awaited(&self.context) { due } else { due.max(began + FRAME) };
            match self.wakes.recv_timeout(next.saturating_duration_since(Instant::now())) {
                Ok(Wake::Frame(delay)) => due = due.min(Instant::now() + delay.min(LONGEST_SLEEP)),
                Ok(Wake::Stop) | Err(RecvTimeoutError::Disconnected) => return Err(()),
                Err(RecvTimeoutError::Timeout) => return Ok(()),
            }
        }
    }
}
