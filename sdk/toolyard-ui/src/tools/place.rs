//! Where a tool acts: a point of a window, with the element there.

use toolyard_tool::ToolError;

use super::{Operator, Selector, Stop, no_window};
use crate::{ElementId, Tree};

/// A point of a window, and the element there.
pub(super) struct Place {
    pub(super) window: ElementId,
    pub(super) at: (f64, f64),
    pub(super) element: usize,
}

impl Place {
    /// The middle of an element.
    pub(super) fn of_element(tree: &Tree, element: usize) -> Result<Self, ToolError> {
        let info = tree.info(element);
        if info.bounds.is_empty() {
            return Err(ToolError::new(format!("the element at `{}` has no place in its window", info.path)));
        }
        let window = tree.id(tree.window_of(element));
        Ok(Self { window, at: info.bounds.center(), element })
    }

    fn of_point(tree: &Tree, window: Option<&String>, x: f64, y: f64) -> Result<Self, Stop> {
        let window = match window {
            Some(path) => tree.window_of(Selector::at(path).require(tree)?),
            None => tree.windows().next().ok_or_else(no_window)?,
        };
        let element = tree.at_in(window, x, y);
        let element = element.ok_or_else(|| Stop::Missing(format!("there is no element at {x}, {y}")))?;
        Ok(Self { window: tree.id(window), at: (x, y), element })
    }

    /// A point, or the middle of an element, which is scrolled into view if need be.
    pub(super) async fn find(
        operator: &Operator,
        (x, y): (Option<f64>, Option<f64>),
        window: Option<&String>,
        selector: &Selector<'_>,
    ) -> Result<(Tree, Self), Stop> {
        if let (Some(x), Some(y)) = (x, y) {
            let tree = operator.tree().await?;
            let place = Self::of_point(&tree, window, x, y)?;
            return Ok((tree, place));
        }
        let (tree, element) = operator.reach(selector).await?;
        let place = Self::of_element(&tree, element)?;
        Ok((tree, place))
    }
}
