//! Meeting an upstream over HTTP.

use super::{ConnectError, Connected, First, Plan, Trouble};
use crate::http::HttpSpec;

pub(super) async fn connect(
    _plan: &Plan<'_>,
    _spec: &HttpSpec,
    _first: First,
) -> Result<Connected, ConnectError> {
    Err(ConnectError::new(Trouble::Unreachable, "not yet"))
}
