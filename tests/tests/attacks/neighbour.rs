//! Somebody on the network, without credentials, or with the token of a cluster that is theirs.

use std::sync::Arc;

use super::world::{World, secrets_path};

/// Everything that gives something out asks who is there.
pub(super) async fn without_a_token_nothing_is_given(world: Arc<World>) {
    let nobody = world.anonymous();
    let id = &world.victim.id;
    let asked = [
        secrets_path(&world.victim.namespace),
        format!("/k8s/clusters/{id}/api/v1/nodes"),
        "/v3/connect/agent".to_owned(),
        "/v3/connect/config-yaml".to_owned(),
        "/v3/connect/cluster-info".to_owned(),
    ];
    for path in asked {
        let answer = nobody.ask("GET", &path, None, &[("x-cattle-id", "0123456789abcdef")]).await;
        assert!([401, 403].contains(&answer.status), "{path}: {answer:?}");
    }
}
