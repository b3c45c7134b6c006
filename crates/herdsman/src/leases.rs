//! The leases of whoever does the work. `herdsman server` wins them; `herdsman up` just has them: controllers that somebody points at
//! its API find that the work is being done, and wait.

use std::time::Duration;

use clock::Clock;
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use serde_json::json;

/// The lease of whoever does the work.
pub(crate) const LEASE: &str = "herdsman-controllers";
/// The lease of whoever does Cluster API's part of it: a process may do nothing else.
pub(crate) const CORE_LEASE: &str = "herdsman-capi";

/// Where they are.
const NAMESPACE: &str = "cattle-system";
/// Who `herdsman up` is to others. There is one for each data directory.
const HOLDER: &str = "herdsman-up";
/// How long they are good. The API ends with the process that holds them, so that nobody ever waits for them to run out.
const LASTS: Duration = Duration::from_secs(3600);
/// How often they are renewed.
const RENEWED: Duration = Duration::from_secs(1200);

/// Takes both, whoever has them: whoever has the data directory does the work.
///
/// # Errors
/// If the API refuses.
pub(crate) async fn take(client: &Client, clock: &dyn Clock) -> Result<(), kube::Error> {
    let leases: Api<Lease> = Api::namespaced(client.clone(), NAMESPACE);
    let options = PatchParams::apply(HOLDER).force();
    for name in [LEASE, CORE_LEASE] {
        let lease = json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": name},
            "spec": {
                "holderIdentity": HOLDER,
                "leaseDurationSeconds": LASTS.as_secs(),
                "renewTime": format!("{:.6}", clock.now()),
            },
        });
        leases.patch(name, &options, &Patch::Apply(lease)).await?;
    }
    Ok(())
}

/// Keeps them, until the future is dropped.
pub(crate) async fn keep(client: &Client, clock: &dyn Clock) {
    loop {
        tokio::time::sleep(RENEWED).await;
        if let Err(error) = take(client, clock).await {
            tracing::warn!(%error, "the leases are not renewed");
        }
    }
}
