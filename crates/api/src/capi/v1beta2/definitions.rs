use super::{
    Cluster, Machine, MachineDeployment, MachineDrainRule, MachineHealthCheck, MachinePool, MachineSet,
};
use crate::Kind;
use crate::capi::v1beta1;
use crate::crd::{Column, Definition, Version};

const AVAILABLE: &str = r#".status.conditions[?(@.type=="Available")].status"#;
const PAUSED: &str = r#".status.conditions[?(@.type=="Paused")].status"#;

/// The definitions of this group, stored in this version.
pub(crate) fn definitions() -> Vec<Definition> {
    vec![
        core::<Cluster>(Version::of::<Cluster>().columns(cluster_columns()), v1beta1::cluster())
            .short_names(["cl"]),
        core::<Machine>(Version::of::<Machine>().columns(machine_columns()), v1beta1::machine())
            .short_names(["ma"]),
        core::<MachineSet>(
            Version::of::<MachineSet>().with_scale().columns(machine_set_columns()),
            v1beta1::machine_set(),
        )
        .short_names(["ms"]),
        core::<MachineDeployment>(
            Version::of::<MachineDeployment>().with_scale().columns(machine_deployment_columns()),
            v1beta1::machine_deployment(),
        )
        .short_names(["md"]),
        core::<MachineHealthCheck>(
            Version::of::<MachineHealthCheck>().columns(health_check_columns()),
            v1beta1::machine_health_check(),
        )
        .short_names(["mhc", "mhcs"]),
        core::<MachineDrainRule>(
            Version::of::<MachineDrainRule>().without_status().columns(drain_rule_columns()),
            v1beta1::machine_drain_rule(),
        ),
        Definition::of::<MachinePool>(
            Version::of::<MachinePool>().with_scale_without_selector().columns(machine_pool_columns()),
        )
        .of_cluster_api()
        .short_names(["mp"]),
    ]
}

/// A kind that is stored in this version and served in v1beta1 as well.
fn core<K: Kind>(stored: Version, also_served: Version) -> Definition {
    Definition::of::<K>(stored).also_served(also_served).of_cluster_api()
}

fn cluster_columns() -> Vec<Column> {
    vec![
        Column::string("ClusterClass", ".spec.topology.classRef.name"),
        Column::string("Available", AVAILABLE),
        Column::integer("CP Desired", ".status.controlPlane.desiredReplicas"),
        Column::integer("CP Current", ".status.controlPlane.replicas").wide(),
        Column::integer("CP Ready", ".status.controlPlane.readyReplicas").wide(),
        Column::integer("CP Available", ".status.controlPlane.availableReplicas"),
        Column::integer("CP Up-to-date", ".status.controlPlane.upToDateReplicas"),
        Column::integer("W Desired", ".status.workers.desiredReplicas"),
        Column::integer("W Current", ".status.workers.replicas").wide(),
        Column::integer("W Ready", ".status.workers.readyReplicas").wide(),
        Column::integer("W Available", ".status.workers.availableReplicas"),
        Column::integer("W Up-to-date", ".status.workers.upToDateReplicas"),
        Column::string("Paused", PAUSED).wide(),
        Column::string("Phase", ".status.phase"),
        Column::age(),
        Column::string("Version", ".spec.topology.version"),
    ]
}

fn machine_columns() -> Vec<Column> {
    vec![
        Column::string("Cluster", ".spec.clusterName"),
        Column::string("Node Name", ".status.nodeRef.name"),
        Column::string("Provider ID", ".spec.providerID").wide(),
        Column::string("Failure domain", ".status.failureDomain"),
        Column::string("Ready", r#".status.conditions[?(@.type=="Ready")].status"#),
        Column::string("Available", AVAILABLE),
        Column::string("Up-to-date", r#".status.conditions[?(@.type=="UpToDate")].status"#),
        Column::string("Internal-IP", r#".status.addresses[?(@.type=="InternalIP")].address"#).wide(),
        Column::string("External-IP", r#".status.addresses[?(@.type=="ExternalIP")].address"#).wide(),
        Column::string("OS-Image", ".status.nodeInfo.osImage").wide(),
        Column::string("Paused", PAUSED).wide(),
        Column::string("Phase", ".status.phase"),
        Column::age(),
        Column::string("Version", ".spec.version"),
    ]
}

fn machine_set_columns() -> Vec<Column> {
    vec![
        Column::string("Cluster", ".spec.clusterName"),
        Column::integer("Desired", ".spec.replicas"),
        Column::integer("Current", ".status.replicas"),
        Column::integer("Ready", ".status.readyReplicas"),
        Column::integer("Available", ".status.availableReplicas"),
        Column::integer("Up-to-date", ".status.upToDateReplicas"),
        Column::string("Paused", PAUSED).wide(),
        Column::age(),
        Column::string("Version", ".spec.template.spec.version"),
    ]
}

fn machine_pool_columns() -> Vec<Column> {
    let mut columns = machine_set_columns();
    columns.insert(columns.len() - 2, Column::string("Phase", ".status.phase"));
    columns
}

fn machine_deployment_columns() -> Vec<Column> {
    vec![
        Column::string("Cluster", ".spec.clusterName"),
        Column::string("Available", AVAILABLE),
        Column::integer("Desired", ".spec.replicas"),
        Column::integer("Current", ".status.replicas"),
        Column::integer("Ready", ".status.readyReplicas"),
        Column::integer("Available", ".status.availableReplicas"),
        Column::integer("Up-to-date", ".status.upToDateReplicas"),
        Column::string("Paused", PAUSED).wide(),
        Column::string("Phase", ".status.phase"),
        Column::age(),
        Column::string("Version", ".spec.template.spec.version"),
    ]
}

fn health_check_columns() -> Vec<Column> {
    vec![
        Column::string("Cluster", ".spec.clusterName"),
        Column::integer("Replicas", ".status.expectedMachines"),
        Column::integer("Healthy", ".status.currentHealthy"),
        Column::string("Paused", PAUSED).wide(),
        Column::age(),
    ]
}

fn drain_rule_columns() -> Vec<Column> {
    vec![
        Column::string("Behavior", ".spec.drain.behavior"),
        Column::string("Order", ".spec.drain.order"),
        Column::age(),
    ]
}
