//! What looking after node drivers takes.

use std::sync::Arc;

use api::machine::UnknownFieldType;
use api::management::v3::{DynamicSchema, NodeDriver};
use clock::Clock;
use kit::object::Unreadable;
use kit::write::Writer;
use kit::{Cache, Caches, KindId, Pace, Queue};
use provisioning::machine::flags::Unprefixed;
use tokio::sync::watch;

use super::{Settings, source};
use crate::{Parts, ServerInfo};

/// The name in managed fields.
pub(super) const MANAGER: &str = "herdsman-drivers";

/// Why a driver is not usable.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A write failed.
    #[error(transparent)]
    Write(#[from] kit::write::Error),
    /// A CRD was not taken.
    #[error("cannot {what} CRD {name}")]
    Definition {
        /// What was to be done.
        what: &'static str,
        /// Which one.
        name: String,
        /// The answer.
        #[source]
        answer: Box<kube::Error>,
    },
    /// An object is not what its type says.
    #[error(transparent)]
    Unreadable(#[from] Unreadable),
    /// The driver has no name.
    #[error("spec.displayName: the driver needs a name")]
    NoName,
    /// Its flags cannot be asked for.
    #[error(transparent)]
    Source(#[from] source::Error),
    /// A flag cannot be a field.
    #[error(transparent)]
    Unprefixed(#[from] Unprefixed),
    /// A field cannot be served.
    #[error(transparent)]
    FieldType(#[from] UnknownFieldType),
}

pub(super) struct Context {
    pub(super) caches: Caches,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) writer: Writer,
    pub(super) queue: Arc<Queue>,
    pub(super) drivers: Arc<Cache>,
    pub(super) schemas: Arc<Cache>,
    pub(super) settings: Settings,
    pub(super) server: watch::Receiver<ServerInfo>,
}

impl Context {
    pub(super) fn new(parts: Parts, settings: Settings) -> Arc<Self> {
        let Parts { caches, clock, server, .. } = parts;
        let plain = |_: &mut serde_json::Value| {};
        Arc::new(Context {
            writer: Writer::new(caches.clone(), MANAGER),
            queue: Arc::new(Queue::new(clock.clone(), Pace::default())),
            drivers: caches.of_cluster(&KindId::of::<NodeDriver>(), plain),
            schemas: caches.of_cluster(&KindId::of::<DynamicSchema>(), plain),
            caches,
            clock,
            settings,
            server,
        })
    }

    pub(super) async fn ready(&self) {
        self.drivers.wait_synced().await;
        self.schemas.wait_synced().await;
    }

    pub(super) fn connect(&self) {
        let queue = self.queue.clone();
        self.drivers.listen(MANAGER, || Arc::new(move |change| queue.add(change.object().key())));
    }
}
