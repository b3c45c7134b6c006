//! What only time brings: things that have lived long enough go, and so does old history; what nobody reads is packed; where nobody writes
//! the store rests.

use std::time::Duration;

use packing::Packer;

use crate::server::Server;
use crate::store::View;

/// Values that nobody has read for this long to twice as long are packed.
const FOLD: Duration = Duration::from_secs(30);

/// Values that are packed in one go, before others may run.
const AT_ONCE: usize = 50;

/// Every so many rounds things expire. So late they may go: as upstream, whose leases are shared for a minute.
const EXPIRE_EVERY: u32 = 2;

/// Every so many rounds history is trimmed.
const TRIM_EVERY: u32 = 10;

/// Never ends. A failure is told, and the next time is as good.
pub(super) async fn run(server: &Server) {
    let mut packer = Packer::default();
    let mut round: u32 = 0;
    let mut written = server.store().view().head();
    loop {
        let now = server.clock().now();
        if round.is_multiple_of(EXPIRE_EVERY)
            && let Err(error) = server.store().expire(now).await
        {
            tracing::warn!(%error, "what has lived long enough could not be deleted");
        }
        if round.is_multiple_of(TRIM_EVERY)
            && let Err(error) = server.store().trim(now).await
        {
            tracing::warn!(%error, "old history could not be trimmed");
        }
        let view = server.store().view();
        if view.head() == written
            && let Err(error) = server.store().rest().await
        {
            tracing::warn!(%error, "the store does not rest");
        }
        written = view.head();
        fold(&view, &mut packer).await;
        drop(view);
        round = round.wrapping_add(1);
        tokio::time::sleep(FOLD).await;
    }
}

async fn fold(view: &View, packer: &mut Packer) {
    for (number, stored) in view.kept().enumerate() {
        stored.fold(packer);
        if number % AT_ONCE == AT_ONCE - 1 {
            tokio::task::yield_now().await;
        }
    }
    packer.forget_unused();
}
