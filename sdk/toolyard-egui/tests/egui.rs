//! The adapter against egui itself: what egui reports as clicked, typed and pressed, in scrolled areas and in two windows.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use egui::{
    Context, Pos2, RawInput, Rect, Role, Sense, Vec2, ViewportBuilder, ViewportId, ViewportInfo, WidgetInfo,
};
use parking_lot::Mutex;
use serde_json::{Value, json};
use toolyard_egui::{Attached, Headless};
use toolyard_ui::{Action, MouseButton, Step, StepFailed, Ui, replay};

/// What egui has reported.
type Log = Arc<Mutex<Vec<String>>>;

/// An app on a thread of its own.
struct App {
    ui: Arc<Attached>,
    log: Log,
    stop: Box<dyn Fn()>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for App {
    fn drop(&mut self) {
        (self.stop)();
        self.thread.take().map(JoinHandle::join);
    }
}

impl App {
    async fn step(&self, tool: &str, arguments: Value) -> Result<(), StepFailed> {
        replay(self.ui.clone(), &[Step { tool: tool.to_owned(), arguments }]).await
    }

    fn taken(&self) -> Vec<String> {
        std::mem::take(&mut *self.log.lock())
    }
}

/// Rows of buttons in an area that scrolls. Its bar is beside them: one that covers a button would get the click.
fn scrolled() -> App {
    let headless = Headless::new(300.0, 200.0);
    let (ui, stopper, log) = (headless.attach(), headless.stopper(), Log::default());
    let own = log.clone();
    let thread = std::thread::spawn(move || {
        headless.run(|ui| {
            egui::CentralPanel::default().show(ui, |ui| {
                ui.label("Above");
                egui::ScrollArea::vertical().max_height(90.0).show(ui, |ui| {
                    for row in 0..20 {
                        ui.horizontal(|ui| {
                            for column in 0..2 {
                                let name = format!("Button {row}.{column}");
                                if ui.button(&name).clicked() {
                                    own.lock().push(name);
                                }
                            }
                        });
                    }
                });
                if ui.button("Below").clicked() {
                    own.lock().push("Below".to_owned());
                }
            });
        });
    });
    App { ui, log, stop: Box::new(move || stopper.stop()), thread: Some(thread) }
}

#[tokio::test]
async fn a_click_by_name_reaches_every_button_and_no_other_wherever_it_is_scrolled() {
    let app = scrolled();
    let rows = [0, 19, 3, 12];
    for name in rows.iter().flat_map(|row| [0, 1].map(|column| format!("Button {row}.{column}"))) {
        app.step("ClickElement", json!({ "name": name })).await.unwrap();
        assert_eq!(app.taken(), [name]);
    }
}

#[tokio::test]
async fn the_centre_of_every_button_in_view_is_where_egui_sees_a_click_on_it() {
    let app = scrolled();
    app.step("ClickElement", json!({ "name": "Button 10.1" })).await.unwrap();
    app.taken();
    let tree = app.ui.tree().await.unwrap();
    let buttons = (0..tree.len()).filter(|&position| tree.info(position).kind == "Button");
    let (in_view, beyond): (Vec<_>, Vec<_>) = buttons.partition(|&position| tree.is_in_view(position));
    assert!(in_view.len() > 5 && beyond.len() > 25, "{} and {}", in_view.len(), beyond.len());
    for position in in_view {
        let info = tree.info(position);
        let window = tree.id(tree.window_of(position));
        let at = info.bounds.center();
        app.ui.perform(Action::Click { window, at, button: MouseButton::Left, count: 1 }).await.unwrap();
        assert_eq!(app.taken(), [info.name.clone().unwrap()], "at {at:?}");
    }
}

/// A frame of one window: a field, a button, and the keys that arrive.
fn draw(ui: &mut egui::Ui, window: &str, text: &Mutex<String>, log: &Log) {
    ui.horizontal(|ui| {
        let label = ui.label("Field");
        let changed = ui.text_edit_singleline(&mut *text.lock()).labelled_by(label.id).changed();
        if changed {
            log.lock().push(format!("{window}: {}", text.lock()));
        }
    });
    if ui.button("Save").clicked() {
        log.lock().push(format!("{window}: saved"));
    }
    if ui.input(|input| input.key_pressed(egui::Key::F5)) {
        log.lock().push(format!("{window}: F5"));
    }
}

fn input(id: ViewportId) -> RawInput {
    let mut input = RawInput { viewport_id: id, focused: true, ..RawInput::default() };
    input.viewports.insert(id, ViewportInfo::default());
    // The second one is smaller, so that a place in it is not one in the other by accident.
    let size = if id == ViewportId::ROOT { Vec2::new(400.0, 300.0) } else { Vec2::new(200.0, 100.0) };
    input.screen_rect = Some(Rect::from_min_size(Pos2::ZERO, size));
    input
}

/// Two windows that draw when they are asked to, as eframe does it.
fn two_windows() -> App {
    let context = Context::default();
    context.set_embed_viewports(false);
    let (wake, wakes) = sync_channel(64);
    let stop = wake.clone();
    context.set_request_repaint_callback(move |_| {
        // If the queue is full, a frame is due anyway.
        let _ = wake.try_send(true);
    });
    let (ui, log) = (toolyard_egui::attach(&context), Log::default());
    let own = log.clone();
    let thread = std::thread::spawn(move || run(&context, &wakes, &own));
    let stop = Box::new(move || {
        let _ = stop.send(false);
    });
    App { ui, log, stop, thread: Some(thread) }
}

fn run(context: &Context, wakes: &Receiver<bool>, log: &Log) {
    let texts: [Arc<Mutex<String>>; 2] = [Arc::default(), Arc::default()];
    let second = ViewportId::from_hash_of("second");
    loop {
        let mut output = context.run_ui(input(ViewportId::ROOT), |ui| {
            let (text, own) = (texts[1].clone(), log.clone());
            let builder = ViewportBuilder::default().with_title("Second");
            ui.ctx().show_viewport_deferred(second, builder, move |ui, _| draw(ui, "second", &text, &own));
            draw(ui, "first", &texts[0], log);
        });
        // Nothing is drawn.
        output.textures_delta.clear();
        for (id, window) in &output.viewport_output {
            if let Some(draw) = &window.viewport_ui_cb {
                context.run_ui(input(*id), |ui| draw(ui)).textures_delta.clear();
            }
        }
        if matches!(wakes.recv_timeout(Duration::from_mins(1)), Ok(false)) {
            return;
        }
    }
}

#[tokio::test]
async fn each_action_goes_to_the_window_of_its_element_or_of_the_last_action() {
    let app = two_windows();
    let mut changes = app.ui.changes();
    let both = async {
        loop {
            changes.mark_unchanged();
            let tree = app.ui.tree().await.unwrap();
            if tree.windows().count() == 2 {
                return tree;
            }
            changes.changed().await.unwrap();
        }
    };
    let tree = tokio::time::timeout(Duration::from_secs(30), both).await.unwrap();
    let path = |window: &str, name: &str, kind: &str| {
        let found = tree.by_name(name, Some(kind)).find(|&found| {
            let is_second = tree.info(tree.window_of(found)).name.as_deref() == Some("Second");
            is_second == (window == "second")
        });
        tree.info(found.unwrap()).path.clone()
    };
    for window in ["second", "first", "second"] {
        let (field, save) = (path(window, "Field", "TextInput"), path(window, "Save", "Button"));
        app.step("ClickElement", json!({ "path": save })).await.unwrap();
        assert_eq!(app.taken(), [format!("{window}: saved")]);
        app.step("SetValue", json!({ "path": field, "value": "" })).await.unwrap();
        app.step("SetValue", json!({ "path": field, "value": "a" })).await.unwrap();
        assert_eq!(app.taken().last(), Some(&format!("{window}: a")));
        app.step("TypeText", json!({ "path": field, "text": "b", "clearFirst": true })).await.unwrap();
        assert_eq!(app.taken().last(), Some(&format!("{window}: b")));
        app.step("PressKey", json!({ "path": field, "key": "F5" })).await.unwrap();
        assert_eq!(app.taken(), [format!("{window}: F5")]);
    }
    // The field of the first window has the focus as well.
    let steps = [
        Step {
            tool: "ClickElement".into(),
            arguments: json!({ "path": path("second", "Field", "TextInput") }),
        },
        Step { tool: "TypeText".into(), arguments: json!({ "text": "c", "clearFirst": true }) },
        Step { tool: "PressKey".into(), arguments: json!({ "key": "F5" }) },
    ];
    replay(app.ui.clone(), &steps).await.unwrap();
    assert_eq!(app.taken().split_off(1), ["second: c", "second: F5"]);
}

/// An app that publishes an element inside itself from the click on "Break" to the one on "Repair".
fn breakable() -> App {
    let headless = Headless::new(300.0, 200.0);
    let (ui, stopper, log) = (headless.attach(), headless.stopper(), Log::default());
    let own = log.clone();
    let thread = std::thread::spawn(move || {
        let mut is_broken = false;
        headless.run(|ui| {
            let label = ui.label("Label").id;
            for (name, breaks) in [("Break", true), ("Repair", false)] {
                if ui.button(name).clicked() {
                    is_broken = breaks;
                    own.lock().push(name.to_owned());
                }
            }
            if is_broken {
                ui.label("New");
                let inside_itself = |node: &mut egui::accesskit::Node| node.push_child(label.accesskit_id());
                ui.ctx().accesskit_node_builder(label, inside_itself);
            }
        });
    });
    App { ui, log, stop: Box::new(move || stopper.stop()), thread: Some(thread) }
}

#[tokio::test]
async fn an_app_that_publishes_an_element_inside_itself_keeps_its_last_valid_tree() {
    let app = breakable();
    for _ in 0..2 {
        app.step("ClickElement", json!({ "name": "Break" })).await.unwrap();
        let tree = app.ui.tree().await.unwrap();
        assert!(tree.by_name("Label", None).next().is_some() && tree.by_name("New", None).next().is_none());
        app.step("ClickElement", json!({ "name": "Repair" })).await.unwrap();
        assert_eq!(app.taken(), ["Break", "Repair"]);
    }
}

#[test]
fn an_animation_is_drawn_at_most_sixty_times_per_second() {
    let headless = Headless::new(100.0, 100.0);
    // Agents that may come do not change that.
    let _ui = headless.attach();
    let stopper = headless.stopper();
    let mut frames = 0;
    let started = Instant::now();
    headless.run(|ui| {
        ui.ctx().request_repaint();
        frames += 1;
        if frames == 31 {
            stopper.stop();
        }
    });
    assert!(frames >= 31);
    let took = started.elapsed();
    assert!(took >= Duration::from_millis(500), "31 frames took {took:?}");
}

#[tokio::test]
async fn at_scale_2_a_place_in_the_picture_is_the_place_of_the_element() {
    let headless = Headless::new(300.0, 200.0);
    headless.context().set_pixels_per_point(2.0);
    let (ui, stopper, log) = (headless.attach(), headless.stopper(), Log::default());
    let own = log.clone();
    let thread = std::thread::spawn(move || {
        headless.run(|ui| {
            let button = ui.add(egui::Button::new("Red").fill(egui::Color32::RED));
            if button.clicked() {
                own.lock().push("Red".to_owned());
            }
        });
    });
    let app = App { ui, log, stop: Box::new(move || stopper.stop()), thread: Some(thread) };
    // The scale counts from the second frame on.
    app.ui.tree().await.unwrap();
    let tree = app.ui.tree().await.unwrap();
    let window = tree.id(tree.windows().next().unwrap());
    let picture = app.ui.screenshot(window).await.unwrap();
    assert_eq!((picture.width(), picture.height(), picture.scale()), (600, 400, 2.0));
    let picture = picture.logical().unwrap();
    assert_eq!((picture.width(), picture.height()), (300, 200));
    let bounds = tree.info(tree.by_name("Red", Some("Button")).next().unwrap()).bounds;
    // Beside the text of the button.
    let (x, y) = (bounds.x + 2.0, bounds.y + bounds.height / 2.0);
    let places = (0..200).flat_map(|y| (0..300).map(move |x| (f64::from(x), f64::from(y))));
    let colours = places.zip(picture.rgba().chunks_exact(4));
    let mut red = colours.filter(|(_, colour)| *colour == [255, 0, 0, 255]).map(|(place, _)| place);
    assert!(red.any(|place| place == (x.floor(), y.floor())), "{bounds:?}");
    app.step("ClickElement", json!({ "x": x, "y": y })).await.unwrap();
    assert_eq!(app.taken(), ["Red"]);
}

/// Rows in a list that scrolls. Nothing is written on them, so that frames are fast without optimisations, too.
fn large(rows: usize) -> App {
    let headless = Headless::new(300.0, 200.0);
    let (ui, stopper, log) = (headless.attach(), headless.stopper(), Log::default());
    let own = log.clone();
    let thread = std::thread::spawn(move || {
        headless.run(|ui| {
            egui::ScrollArea::vertical().show(ui, |ui| {
                for row in 0..rows {
                    let name = format!("Row {row}");
                    let (_, button) = ui.allocate_exact_size(Vec2::new(200.0, 10.0), Sense::click());
                    button.widget_info(|| WidgetInfo::labeled(Role::Button, true, &name));
                    if button.clicked() {
                        own.lock().push(name);
                    }
                }
            });
        });
    });
    App { ui, log, stop: Box::new(move || stopper.stop()), thread: Some(thread) }
}

#[tokio::test]
async fn ten_thousand_widgets_are_all_in_the_tree_and_the_last_can_be_clicked() {
    let app = large(10_000);
    let mut changes = app.ui.changes();
    let drawn = async {
        loop {
            changes.mark_unchanged();
            if let Ok(tree) = app.ui.tree().await {
                return tree;
            }
            changes.changed().await.unwrap();
        }
    };
    let tree = tokio::time::timeout(Duration::from_mins(2), drawn).await.unwrap();
    let rows: Vec<_> = (0..tree.len()).filter(|&position| tree.info(position).kind == "Button").collect();
    assert_eq!(rows.len(), 10_000);
    assert!(!tree.is_cut());
    let last = tree.info(rows[9_999]);
    assert_eq!(last.name.as_deref(), Some("Row 9999"));
    assert!(last.path.ends_with("/Button[9999]"), "{}", last.path);
    assert!(!tree.is_in_view(rows[9_999]));
    app.step("ClickElement", json!({ "name": "Row 9999" })).await.unwrap();
    assert_eq!(app.taken(), ["Row 9999"]);
}
