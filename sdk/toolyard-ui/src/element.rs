//! An element as agents see it.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The position and size of an element, in logical pixels of its window. A window left of the first monitor has
/// negative coordinates; width and height are never negative.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ElementBounds {
    /// The left edge.
    pub x: f64,
    /// The top edge.
    pub y: f64,
    /// The width.
    pub width: f64,
    /// The height.
    pub height: f64,
}

impl ElementBounds {
    /// Bounds by their edges. Anything that is not a finite number becomes 0.
    pub fn new(x: f64, y: f64, width: f64, height: f64) -> Self {
        let finite = |number: f64| if number.is_finite() { number } else { 0.0 };
        Self { x: finite(x), y: finite(y), width: finite(width).max(0.0), height: finite(height).max(0.0) }
    }

    /// The point in the middle, where a click hits the element.
    ///
    /// ```
    /// # use toolyard_ui::ElementBounds;
    /// assert_eq!(ElementBounds::new(10.0, 10.0, 5.0, 20.0).center(), (12.5, 20.0));
    /// ```
    pub fn center(&self) -> (f64, f64) {
        (self.x + self.width / 2.0, self.y + self.height / 2.0)
    }

    /// Whether a point is inside.
    pub fn contains(&self, x: f64, y: f64) -> bool {
        let inside = |at: f64, start: f64, length: f64| at >= start && at < start + length;
        inside(x, self.x, self.width) && inside(y, self.y, self.height)
    }

    /// Whether there is nothing to see or to click.
    pub fn is_empty(&self) -> bool {
        self.width <= 0.0 || self.height <= 0.0
    }

    /// The part that both have in common; empty if they do not overlap.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        let x = self.x.max(other.x);
        let y = self.y.max(other.y);
        let right = (self.x + self.width).min(other.x + other.width);
        let bottom = (self.y + self.height).min(other.y + other.height);
        Self::new(x, y, right - x, bottom - y)
    }
}

impl ElementBounds {
    /// The smallest bounds around both; an empty one does not count.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        if self.is_empty() {
            return *other;
        }
        if other.is_empty() {
            return *self;
        }
        let x = self.x.min(other.x);
        let y = self.y.min(other.y);
        let right = (self.x + self.width).max(other.x + other.width);
        let bottom = (self.y + self.height).max(other.y + other.height);
        Self::new(x, y, right - x, bottom - y)
    }
}

/// One element of the tree.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ElementInfo {
    /// The kind of the element, for instance `Button`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Its label or title.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Its position among the siblings of the same type, from 0.
    pub index: usize,
    /// The position and size of the element in its window.
    pub bounds: ElementBounds,
    /// Its path from the window, for instance `Window[0]/Button[2]`.
    pub path: String,
    /// Further facts: `value`, `checked`, `disabled`, `focused`, `hidden`, `automationId` …
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub properties: BTreeMap<String, String>,
    /// The elements inside it, as far as the depth that was asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub children: Vec<ElementInfo>,
}
