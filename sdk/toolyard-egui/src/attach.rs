//! An egui context as a [`Ui`]: a plugin takes the tree from each frame and puts input into the next.
//!
//! The thread that runs the frames owns everything of egui. A call leaves its input in a queue, wakes the app and
//! waits for the frame that has handled it.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use egui::{Context, Event, FullOutput, RawInput, ScreenshotCallback, Vec2, ViewportCommand, ViewportId};
use tokio::sync::{oneshot, watch};
use toolyard_accesskit::{WindowTree, elements};
use toolyard_model::BoxFuture;
use toolyard_ui::{Action, ElementId, Picture, Tree, Ui, UiError};

use crate::input;

/// How long to wait for a fresh frame before the last one has to do. A window that is minimised draws none.
const FRESH: Duration = Duration::from_millis(500);
/// How many actions may wait for their frames.
const MOST_WAITING: usize = 100;

/// Lets agents see and operate the app that draws with this context, until the returned value is dropped.
pub fn attach(context: &Context) -> Arc<Attached> {
    let shared = Arc::new(Shared::default());
    context.enable_accesskit();
    context.add_plugin(Plugin { shared: Arc::downgrade(&shared), viewports: Vec::new() });
    context.request_repaint();
    Arc::new(Attached { context: context.clone(), shared })
}

/// An egui app that agents can see and operate.
pub struct Attached {
    context: Context,
    shared: Arc<Shared>,
}

impl std::fmt::Debug for Attached {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Attached")
    }
}

/// What calls and frames share.
#[derive(Default)]
struct Shared {
    frames: Mutex<Frames>,
    /// Grows when the tree is different from before.
    changes: watch::Sender<u64>,
    /// Grows with every frame.
    passes: watch::Sender<u64>,
}

/// What the frames left, and what they are to handle next.
#[derive(Default)]
struct Frames {
    windows: BTreeMap<ViewportId, WindowTree>,
    waiting: VecDeque<Waiting>,
}

/// An action on its way: the input of each frame, and who waits for its end.
struct Waiting {
    window: Option<ViewportId>,
    frames: VecDeque<Vec<Event>>,
    done: oneshot::Sender<()>,
}

impl Attached {
    fn wake(&self, window: Option<ViewportId>) {
        wake(&self.context, window);
    }

    fn viewport(&self, window: ElementId) -> Option<ViewportId> {
        let frames = self.shared.frames();
        let mut windows = frames.windows.iter();
        windows.find(|(_, tree)| tree.id() == window).map(|(viewport, _)| *viewport)
    }

    /// Puts an action into the queue. Returns what reports its end.
    fn queue(&self, action: &Action) -> Result<oneshot::Receiver<()>, UiError> {
        let window = match action {
            Action::Click { window, .. } | Action::Drag { window, .. } | Action::Scroll { window, .. } => {
                Some(self.viewport(*window).ok_or_else(|| UiError::new("that window is closed"))?)
            }
            Action::SetValue { element, .. } => self.viewport_with(*element),
            Action::Type { .. } | Action::Press { .. } => None,
        };
        let steps = input::frames_of(action)?;
        let (done, ended) = oneshot::channel();
        let mut frames = self.shared.frames();
        if frames.waiting.len() >= MOST_WAITING {
            return Err(UiError::new("too many actions are waiting for the app to draw"));
        }
        frames.waiting.push_back(Waiting { window, frames: steps, done });
        drop(frames);
        self.wake(window);
        Ok(ended)
    }

    fn viewport_with(&self, element: ElementId) -> Option<ViewportId> {
        let frames = self.shared.frames();
        let mut windows = frames.windows.iter();
        windows.find(|(_, tree)| tree.has(element)).map(|(viewport, _)| *viewport)
    }
}

fn wake(context: &Context, window: Option<ViewportId>) {
    match window {
        Some(window) => context.request_repaint_of(window),
        None => context.request_repaint(),
    }
}

impl Shared {
    fn frames(&self) -> MutexGuard<'_, Frames> {
        self.frames.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives the next input to the frame of a window.
    fn feed(&self, viewport: ViewportId, input: &mut RawInput) {
        let mut frames = self.frames();
        let Some(first) = frames.waiting.front_mut() else { return };
        if first.window.is_none_or(|window| window == viewport) {
            let events = first.frames.pop_front().unwrap_or_default();
            input.events.extend(events);
        }
    }

    /// Takes what a frame of a window has left, and asks for the next one if an action needs it.
    fn take(&self, context: &Context, viewport: ViewportId, output: &FullOutput) {
        let mut frames = self.frames();
        let has_changed = frames.update(viewport, context.viewport_rect().size(), output);
        let is_over = |first: &mut Waiting| first.frames.is_empty() || first.done.is_closed();
        if let Some(first) = frames.waiting.pop_front_if(is_over) {
            // A caller that has given up does not wait for this.
            let _ = first.done.send(());
        }
        let next = frames.waiting.front().map(|first| first.window);
        drop(frames);
        if has_changed {
            self.changes.send_modify(|number| *number += 1);
        }
        self.passes.send_modify(|number| *number += 1);
        if let Some(window) = next {
            wake(context, window);
        }
    }
}

impl Frames {
    /// Returns whether the tree is different from before.
    fn update(&mut self, viewport: ViewportId, size: Vec2, output: &FullOutput) -> bool {
        let before = self.windows.len();
        self.windows.retain(|window, _| output.viewport_output.contains_key(window));
        let is_gone = self.windows.len() < before;
        let Some(update) = &output.platform_output.accesskit_update else { return is_gone };
        let title = output.viewport_output.get(&viewport).and_then(|window| window.builder.title.clone());
        let title = title.unwrap_or_default();
        let scale = f64::from(output.pixels_per_point);
        let is_known = self.windows.contains_key(&viewport);
        let new = || WindowTree::new(viewport.0.value(), update.clone());
        let window = self.windows.entry(viewport).or_insert_with(new);
        let is_framed = window.frame(&title, (size.x.into(), size.y.into()), scale);
        let is_new = window.update(update.clone()) || is_framed || !is_known;
        is_new || is_gone
    }
}

impl Ui for Attached {
    fn tree(&self) -> BoxFuture<Result<Tree, UiError>> {
        let mut passes = self.shared.passes.subscribe();
        self.wake(None);
        let shared = self.shared.clone();
        Box::pin(async move {
            let fresh = tokio::time::timeout(FRESH, passes.changed()).await;
            let tree = elements(shared.frames().windows.values());
            if fresh.is_err() && tree.is_empty() {
                return Err(UiError::new("the app has not drawn a frame yet"));
            }
            Ok(tree)
        })
    }

    fn perform(&self, action: Action) -> BoxFuture<Result<(), UiError>> {
        let queued = self.queue(&action);
        Box::pin(async move { queued?.await.map_err(|_| UiError::closed()) })
    }

    fn screenshot(&self, window: ElementId) -> BoxFuture<Result<Picture, UiError>> {
        let Some(viewport) = self.viewport(window) else {
            return Box::pin(async { Err(UiError::new("that window is closed")) });
        };
        let (send, picture) = oneshot::channel();
        let callback = ScreenshotCallback::new(move |image| {
            // A caller that has given up does not wait for this.
            let _ = send.send(image);
        });
        self.context.send_viewport_cmd_to(viewport, ViewportCommand::Screenshot(callback));
        self.wake(Some(viewport));
        let scale = f64::from(self.context.pixels_per_point());
        Box::pin(async move {
            let image = picture.await.map_err(|_| UiError::closed())?;
            let [width, height] = image.size.map(|side| u32::try_from(side).unwrap_or(u32::MAX));
            let rgba = image.pixels.iter().flat_map(egui::Color32::to_srgba_unmultiplied).collect();
            Picture::new(width, height, scale, rgba)
        })
    }

    fn changes(&self) -> watch::Receiver<u64> {
        self.shared.changes.subscribe()
    }
}

/// What egui calls with every frame. It does not keep anything alive.
struct Plugin {
    shared: Weak<Shared>,
    /// The windows whose frames have begun: a window may draw another one inside its own frame.
    viewports: Vec<ViewportId>,
}

impl egui::Plugin for Plugin {
    fn debug_name(&self) -> &'static str {
        "toolyard"
    }

    fn input_hook(&mut self, _context: &Context, input: &mut RawInput) {
        self.viewports.push(input.viewport_id);
        if let Some(shared) = self.shared.upgrade() {
            shared.feed(input.viewport_id, input);
        }
    }

    fn output_hook(&mut self, context: &Context, output: &mut FullOutput) {
        let viewport = self.viewports.pop().unwrap_or(ViewportId::ROOT);
        if let Some(shared) = self.shared.upgrade() {
            shared.take(context, viewport, output);
        }
    }
}
