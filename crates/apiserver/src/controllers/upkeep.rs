//! What only time brings: things that have lived long enough go, and so does old history.

use std::time::Duration;

use crate::server::Server;

/// How late something may go: as upstream, whose leases are shared for a minute.
const EXPIRY: Duration = Duration::from_secs(60);

/// Every so many expiries history is trimmed.
const TRIM_EVERY: u32 = 5;

/// Never ends. A failure is told, and the next time is as good.
pub(super) async fn run(server: &Server) {
    let mut round: u32 = 0;
    loop {
        let now = server.clock().now();
        if let Err(error) = server.store().expire(now).await {
            tracing::warn!(%error, "what has lived long enough could not be deleted");
        }
        if round.is_multiple_of(TRIM_EVERY)
            && let Err(error) = server.store().trim(now).await
        {
            tracing::warn!(%error, "old history could not be trimmed");
        }
        round = round.wrapping_add(1);
        tokio::time::sleep(EXPIRY).await;
    }
}
