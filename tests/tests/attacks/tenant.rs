//! A tenant: every right in one namespace, none elsewhere.

use std::sync::Arc;

use super::world::{ATTACKER, VICTIM, World, cluster_path, secrets_path};

/// The ground that the other attacks stand on: the tenant is one.
pub(super) async fn rights_end_at_the_namespace(world: Arc<World>) {
    let tenant = world.tenant(ATTACKER.0).await;
    tenant.get(&secrets_path(ATTACKER.0)).await.ok();
    for path in [
        secrets_path(VICTIM.0),
        cluster_path(VICTIM.0, VICTIM.1),
        format!("/apis/management.cattle.io/v3/clusters/{}", world.victim.id),
        format!("/k8s/clusters/{}/api/v1/nodes", world.victim.id),
    ] {
        let answer = tenant.get(&path).await;
        assert_eq!(answer.status, 403, "{path}: {answer:?}");
    }
}
