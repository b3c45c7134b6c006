//! Waiting for something to become so.

use std::time::Duration;

use clock::{Deadline, SystemClock};
use tokio::time::sleep;

/// Generous: the machine may be doing something else.
const PATIENCE: Duration = Duration::from_secs(600);
/// How often is looked.
const PERIOD: Duration = Duration::from_millis(250);

/// Looks until `so` has no objection any more.
///
/// # Errors
/// The last objection, if there is one for too long.
pub(crate) async fn until(so: &mut impl AsyncFnMut() -> Result<(), String>) -> Result<(), String> {
    let deadline = Deadline::after(&SystemClock, PATIENCE);
    loop {
        let Err(why) = so().await else { return Ok(()) };
        if deadline.passed(&SystemClock) {
            return Err(why);
        }
        sleep(PERIOD).await;
    }
}

/// No objection if `good`.
pub(crate) fn so(good: bool, objection: impl FnOnce() -> String) -> Result<(), String> {
    if good { Ok(()) } else { Err(objection()) }
}
