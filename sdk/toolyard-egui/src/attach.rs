//! An egui context as a [`Ui`]: a plugin takes the tree from each frame and puts input into the next.
//!
//! The thread that runs the frames owns everything of egui. A call leaves its input in a queue, wakes the app and
//! waits for the frame that has handled it.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Weak};
use std::time::Duration;

use egui::accesskit::NodeId;
use egui::{
    Context, Event, FullOutput, RawInput, ScreenshotCallback, ViewportCommand, ViewportId, WidgetRects,
};
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::{oneshot, watch};
use toolyard_accesskit::{InvalidUpdate, WindowTree, elements};
use toolyard_model::BoxFuture;
use toolyard_ui::{Action, ElementBounds, ElementId, Picture, Tree, Ui, UiError};

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

/// Whether an agent waits for a frame of the app that draws with this context.
pub(crate) fn is_awaited(context: &Context) -> bool {
    let shared = context.plugin_opt::<Plugin>().and_then(|plugin| plugin.lock().shared.upgrade());
    shared.is_some_and(|shared| shared.is_awaited())
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

/// The state that calls and frames share.
#[derive(Default)]
struct Shared {
    frames: Mutex<Frames>,
    /// Grows when the tree is different from before.
    changes: watch::Sender<u64>,
    /// Grows with every frame.
    passes: watch::Sender<u64>,
}

/// The results of the last frames, and the input of the next.
#[derive(Default)]
struct Frames {
    windows: BTreeMap<ViewportId, WindowTree>,
    waiting: VecDeque<Waiting>,
    /// Why the tree of the last frame was rejected.
    rejected: Option<InvalidUpdate>,
}

/// An action on its way: the input of each frame, and who waits for its end.
struct Waiting {
    window: ViewportId,
    frames: VecDeque<Vec<Event>>,
    done: oneshot::Sender<()>,
}

impl Attached {
    /// Wakes all windows. The main one is there before it has drawn anything.
    fn wake(&self) {
        self.context.request_repaint_of(ViewportId::ROOT);
        let windows: Vec<_> = self.shared.frames().windows.keys().copied().collect();
        for window in windows.into_iter().filter(|window| *window != ViewportId::ROOT) {
            self.context.request_repaint_of(window);
        }
    }

    fn viewport(&self, window: ElementId) -> Option<ViewportId> {
        let frames = self.shared.frames();
        let mut windows = frames.windows.iter();
        windows.find(|(_, tree)| tree.id() == window).map(|(viewport, _)| *viewport)
    }

    /// Puts an action into the queue. Returns what reports its end.
    fn queue(&self, action: &Action) -> Result<oneshot::Receiver<()>, UiError> {
        let window = self.viewport(action.window()).ok_or_else(|| UiError::new("that window is closed"))?;
        let steps = input::frames_of(action)?;
        let (done, ended) = oneshot::channel();
        let mut frames = self.shared.frames();
        if frames.waiting.len() >= MOST_WAITING {
            return Err(UiError::new("too many actions are waiting for the app to draw"));
        }
        frames.waiting.push_back(Waiting { window, frames: steps, done });
        drop(frames);
        self.context.request_repaint_of(window);
        Ok(ended)
    }
}

impl Shared {
    fn frames(&self) -> MutexGuard<'_, Frames> {
        self.frames.lock()
    }

    /// Whether a call waits for the tree of the next frame, or an action for its end.
    fn is_awaited(&self) -> bool {
        self.passes.receiver_count() > 0 || !self.frames().waiting.is_empty()
    }

    /// Gives the next input to the frame of a window.
    fn feed(&self, viewport: ViewportId, input: &mut RawInput) {
        let mut frames = self.frames();
        let Some(first) = frames.waiting.front_mut() else { return };
        if first.window == viewport {
            let events = first.frames.pop_front().unwrap_or_default();
            input.events.extend(events);
        }
    }

    /// Takes what a frame of a window has left, and asks for the next one if an action needs it.
    fn take(&self, context: &Context, viewport: ViewportId, output: &FullOutput) {
        let mut frames = self.frames();
        let has_changed = frames.update(context, viewport, output);
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
            context.request_repaint_of(window);
        }
    }
}

impl Frames {
    /// Returns whether the tree is different from before.
    fn update(&mut self, context: &Context, viewport: ViewportId, output: &FullOutput) -> bool {
        let before = self.windows.len();
        self.windows.retain(|window, _| output.viewport_output.contains_key(window));
        let is_gone = self.windows.len() < before;
        if is_gone {
            // The caller learns that its window is closed.
            self.waiting.retain(|waiting| self.windows.contains_key(&waiting.window));
        }
        if !output.viewport_output.contains_key(&viewport) {
            return is_gone;
        }
        let Some(update) = &output.platform_output.accesskit_update else { return is_gone };
        let title = output.viewport_output.get(&viewport).and_then(|window| window.builder.title.clone());
        let title = title.unwrap_or_default();
        let scale = f64::from(output.pixels_per_point);
        let is_known = self.windows.contains_key(&viewport);
        let window = match self.windows.entry(viewport) {
            Entry::Occupied(known) => Ok(known.into_mut()),
            Entry::Vacant(new) => {
                WindowTree::new(viewport.0.value(), update.clone()).map(|tree| new.insert(tree))
            }
        };
        let window = match window {
            Ok(window) => window,
            Err(reason) => {
                log_rejected(&mut self.rejected, reason);
                return is_gone;
            }
        };
        let (size, seen) = context.viewport_for(viewport, |state| {
            (state.input.viewport_rect().size(), seen_parts(&state.prev_pass.widgets))
        });
        let is_framed = window.frame(&title, (size.x.into(), size.y.into()), scale);
        let is_seen = window.seen(seen);
        let is_new = match window.update(update.clone()) {
            Ok(is_new) => {
                self.rejected = None;
                is_new
            }
            Err(reason) => {
                log_rejected(&mut self.rejected, reason);
                false
            }
        };
        is_new || is_framed || is_seen || !is_known || is_gone
    }
}

/// Logs why a tree was rejected, unless that of the frame before was rejected for the same reason.
fn log_rejected(last: &mut Option<InvalidUpdate>, reason: InvalidUpdate) {
    if last.as_ref() != Some(&reason) {
        tracing::warn!(%reason, "rejected an invalid element tree; the last valid one stays");
        *last = Some(reason);
    }
}

/// The part of each widget that the areas around it show. The widgets of a frame that has ended are those of the
/// previous pass.
fn seen_parts(widgets: &WidgetRects) -> HashMap<NodeId, ElementBounds> {
    let all = widgets.layers().flat_map(|(_, widgets)| widgets);
    let parts = all.map(|widget| {
        let part = widget.interact_rect;
        let [x, y, width, height] = [part.min.x, part.min.y, part.width(), part.height()].map(f64::from);
        (widget.id.accesskit_id(), ElementBounds::new(x, y, width, height))
    });
    parts.collect()
}

impl Ui for Attached {
    fn tree(&self) -> BoxFuture<Result<Tree, UiError>> {
        let mut passes = self.shared.passes.subscribe();
        self.wake();
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
        Box::pin(async move { queued?.await.map_err(|_| UiError::new("the window was closed meanwhile")) })
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
        self.context.request_repaint_of(viewport);
        let scale = self.shared.frames().windows.get(&viewport).map_or(1.0, WindowTree::scale);
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

/// The plugin that egui calls with every frame. It does not keep anything alive.
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
