//! What the bootstrap objects of machines are cloned from.

use std::collections::BTreeMap;

use api::catalogue::labels;
use api::names;
use api::provisioning::v1::{Cluster, MachinePool};
use api::rke::v1::{
    RKEBootstrapSpec, RKEBootstrapTemplate, RKEBootstrapTemplateResource, RKEBootstrapTemplateSpec, Userdata,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

/// The one template of a cluster whose infrastructure is ours. User data of driver pools stands in their machine
/// configs.
pub(super) fn shared(cluster: &Cluster) -> RKEBootstrapTemplate {
    let name = cluster.metadata.name.as_deref().unwrap_or_default();
    template(cluster, names::bootstrap_template(name), None)
}

/// The template of one pool. User data is part of its name: other data, other machines.
pub(super) fn of_pool(cluster: &Cluster, deployment: &str, pool: &MachinePool) -> RKEBootstrapTemplate {
    let data = pool.userdata.as_ref().map(|userdata| userdata.inline_userdata.as_str());
    let hash = names::plan_hash(format!("{deployment}{}", data.unwrap_or_default()).as_bytes());
    let name = names::native_bootstrap_template(names::MachineDeployment(deployment), &hash);
    template(cluster, name, pool.userdata.clone())
}

/// Whether a pool needs a template of its own: always where the cluster's infrastructure is the user's, else for user
/// data that nobody but the bootstrap provider delivers.
pub(super) fn is_needed(pool: &MachinePool, infrastructure_is_ours: bool, native: bool) -> bool {
    let data = pool.userdata.as_ref().is_some_and(|userdata| !userdata.inline_userdata.is_empty());
    !infrastructure_is_ours || (native && data)
}

fn template(cluster: &Cluster, name: String, userdata: Option<Userdata>) -> RKEBootstrapTemplate {
    let cluster_name = cluster.metadata.name.clone().unwrap_or_default();
    RKEBootstrapTemplate {
        metadata: ObjectMeta {
            name: Some(name),
            namespace: cluster.metadata.namespace.clone(),
            labels: Some(BTreeMap::from([(labels::CLUSTER_NAME.to_owned(), cluster_name.clone())])),
            ..Default::default()
        },
        spec: RKEBootstrapTemplateSpec {
            cluster_name: cluster_name.clone(),
            template: RKEBootstrapTemplateResource {
                spec: RKEBootstrapSpec { userdata, cluster_name },
                ..Default::default()
            },
        },
        ..Default::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The digits were computed with Go: sha256 over the deployment's name and the user data.
    #[test]
    fn names_follow_the_user_data() {
        let mut cluster = Cluster::default();
        cluster.metadata.name = Some("prod".into());
        let mut pool = MachinePool::default();
        let name = |pool: &MachinePool| of_pool(&cluster, "prod-workers", pool).metadata.name.unwrap();
        assert_eq!(name(&pool), "prod-workers-b821b488");
        pool.userdata = Some(Userdata { inline_userdata: "runcmd:\n- echo hi\n".into() });
        assert_eq!(name(&pool), "prod-workers-35279acc");
    }
}
