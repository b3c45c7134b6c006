//! The addresses and ports that Services get.

use kubeapi::builtin::service::{self, Taken};
use kubeapi::{Status, meta};
use serde_json::Value;

use super::{Call, Server};
use crate::registry::Resource;
use crate::store::Scope;

/// Where Services are stored.
const SERVICES: &str = "/registry/core/services/";

fn is_service(resource: &Resource) -> bool {
    resource.group.is_empty() && resource.plural == "services"
}

impl Server {
    /// The Services' lock, where a write is about one.
    pub(super) async fn lock_services(&self, resource: &Resource) -> Option<tokio::sync::MutexGuard<'_, ()>> {
        match is_service(resource) {
            true => Some(self.services.lock().await),
            false => None,
        }
    }

    /// Asks whether a valid object may be created, or replace `old`, as it would be stored: a Service with what it
    /// gets. Nothing is held for it meanwhile: if another Service is faster, it gets something else.
    pub(super) async fn admit_allocated(
        &self,
        call: Call<'_>,
        object: &Value,
        old: Option<&Value>,
        dry_run: bool,
    ) -> Result<(), Status> {
        if !is_service(call.resource) || self.asks_nobody(call) {
            return self.admit(call, object, old, dry_run).await;
        }
        let mut object = object.clone();
        self.allocate(call.resource, &mut object, old)?;
        self.admit(call, &object, old, dry_run).await
    }

    /// Gives a valid Service what no other has. The caller holds the Services' lock
    /// if it is to be stored.
    pub(super) fn allocate(
        &self,
        resource: &Resource,
        object: &mut Value,
        old: Option<&Value>,
    ) -> Result<(), Status> {
        if !is_service(resource) {
            return Ok(());
        }
        let (namespace, name) = (meta::text(object, "namespace"), meta::text(object, "name"));
        let is_api = (namespace, name) == ("default", "kubernetes");
        let own = resource.key(namespace, name);
        let mut taken = Taken::default();
        for stored in self.store.view().scan(&Scope::prefix(SERVICES)) {
            if *stored.key != *own {
                taken.add(&serde_json::from_slice(&stored.value()).map_err(Status::internal)?);
            }
        }
        let name = name.to_owned();
        service::allocate(object, old, &taken, is_api)
            .map_err(|errors| Status::invalid(&resource.group_kind(), &name, &errors))
    }
}
