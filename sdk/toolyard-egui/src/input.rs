//! A user's actions as the input of one frame after the other.

use std::collections::VecDeque;

use egui::accesskit::{Action as Request, ActionData, ActionRequest, NodeId, TreeId};
use egui::{Event, Key, Modifiers, MouseWheelSource, MouseWheelUnit, PointerButton, Pos2, TouchPhase, Vec2};
use toolyard_ui::{Action, MouseButton, UiError};

/// The input of each frame. The last one is empty: in it the app shows what the input has led to.
pub(crate) fn frames_of(action: &Action) -> Result<VecDeque<Vec<Event>>, UiError> {
    let mut frames = match action {
        Action::Click { at, button, count, .. } => click(*at, *button, *count),
        Action::Drag { from, to, .. } => drag(*from, *to),
        Action::Scroll { at, by, .. } => vec![vec![Event::PointerMoved(point(*at))], vec![wheel(*by)]],
        Action::ScrollIntoView { element, .. } => {
            vec![vec![request(element.0, Request::ScrollIntoView, None)]]
        }
        Action::Focus { element, .. } => vec![vec![request(element.0, Request::Focus, None)]],
        Action::Type { text, clear_first, .. } => typing(text, *clear_first),
        Action::Press { key, modifiers, .. } => press(key, modifiers)?,
        Action::SetValue { element, value, .. } => vec![set_value(element.0, value)],
    };
    frames.push(Vec::new());
    Ok(frames.into())
}

#[expect(clippy::cast_possible_truncation, reason = "egui has coordinates of this size")]
fn point((x, y): (f64, f64)) -> Pos2 {
    Pos2::new(x as f32, y as f32)
}

fn button_at(pos: Pos2, button: MouseButton, pressed: bool) -> Event {
    let button = match button {
        MouseButton::Left => PointerButton::Primary,
        MouseButton::Right => PointerButton::Secondary,
        MouseButton::Middle => PointerButton::Middle,
    };
    Event::PointerButton { pos, button, pressed, modifiers: Modifiers::NONE }
}

fn click(at: (f64, f64), button: MouseButton, count: u32) -> Vec<Vec<Event>> {
    let at = point(at);
    let mut frames = vec![vec![Event::PointerMoved(at)]];
    for _ in 0..count {
        frames.push(vec![button_at(at, button, true)]);
        frames.push(vec![button_at(at, button, false)]);
    }
    frames
}

fn drag(from: (f64, f64), to: (f64, f64)) -> Vec<Vec<Event>> {
    let (from, to) = (point(from), point(to));
    let middle = from + (to - from) / 2.0;
    vec![
        vec![Event::PointerMoved(from)],
        vec![button_at(from, MouseButton::Left, true)],
        vec![Event::PointerMoved(middle)],
        vec![Event::PointerMoved(to)],
        vec![button_at(to, MouseButton::Left, false)],
    ]
}

/// egui moves the content, so the sign is the other way round.
#[expect(clippy::cast_possible_truncation, reason = "egui has coordinates of this size")]
fn wheel((right, down): (f64, f64)) -> Event {
    Event::MouseWheel {
        unit: MouseWheelUnit::Point,
        delta: Vec2::new(-right as f32, -down as f32),
        phase: TouchPhase::Move,
        source: MouseWheelSource::Unknown,
        modifiers: Modifiers::NONE,
    }
}

fn typing(text: &str, clear_first: bool) -> Vec<Vec<Event>> {
    let mut frames = Vec::new();
    if clear_first {
        frames.push(key_stroke(Key::A, Modifiers::COMMAND));
        frames.push(key_stroke(Key::Backspace, Modifiers::NONE));
    }
    // A line end is a key, not text.
    for (number, line) in text.split('\n').enumerate() {
        if number > 0 {
            frames.push(key_stroke(Key::Enter, Modifiers::NONE));
        }
        let line = line.trim_end_matches('\r');
        if !line.is_empty() {
            frames.push(vec![Event::Text(line.to_owned())]);
        }
    }
    frames
}

fn key_stroke(key: Key, modifiers: Modifiers) -> Vec<Event> {
    let event = |pressed| Event::Key { key, physical_key: None, pressed, repeat: false, modifiers };
    vec![event(true), event(false)]
}

fn press(name: &str, held: &[String]) -> Result<Vec<Vec<Event>>, UiError> {
    let upper = name.to_uppercase();
    let key = Key::from_name(name).or_else(|| Key::from_name(&upper));
    let key = key.ok_or_else(|| {
        UiError::new(format!("there is no key `{name}`; keys are named as `Enter`, `F5`, `a`"))
    })?;
    let mut modifiers = Modifiers::NONE;
    for held in held {
        modifiers |= match held.as_str() {
            "ctrl" => Modifiers { command: !cfg!(target_os = "macos"), ..Modifiers::CTRL },
            "shift" => Modifiers::SHIFT,
            "alt" => Modifiers::ALT,
            _ => Modifiers::COMMAND,
        };
    }
    let mut events = key_stroke(key, modifiers);
    // A key with a letter also types it.
    if name.chars().count() == 1 && !modifiers.any() {
        events.insert(1, Event::Text(name.to_owned()));
    }
    Ok(vec![events])
}

/// A slider takes the number, a field the text; each ignores the other.
fn set_value(element: u64, value: &str) -> Vec<Event> {
    let number = value.parse::<f64>().ok().filter(|number| number.is_finite());
    let data = number.map(ActionData::NumericValue).into_iter().chain([ActionData::Value(value.into())]);
    data.map(|data| request(element, Request::SetValue, Some(data))).collect()
}

fn request(element: u64, action: Request, data: Option<ActionData>) -> Event {
    let target_node = NodeId(element);
    Event::AccessKitActionRequest(ActionRequest { action, target_tree: TreeId::ROOT, target_node, data })
}
