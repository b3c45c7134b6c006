//! The schema that a pool keeps of its driver.
//!
//! It is copied into the pool when the pool is made and never follows the driver by itself: a driver that gets new
//! fields with defaults must replace no machine.

use std::collections::BTreeMap;

use api::machine::Driver;
use api::management::v3::{DynamicSchema, DynamicSchemaSpec};
use api::provisioning::v1::{Cluster, MachinePool};

use super::source;
use super::{Refusal, identity};
use crate::{Code, Wait};

/// The schema that the pool keeps; nothing if it has none yet.
pub(super) fn frozen(pool: &MachinePool) -> Result<Option<DynamicSchemaSpec>, Refusal> {
    match pool.dynamic_schema_spec.as_str() {
        "" => Ok(None),
        text => {
            serde_json::from_str(text).map(Some).map_err(|_| Refusal::UnreadableSchema(pool.name.clone()))
        }
    }
}

pub(super) fn wait(cluster: &Cluster, pool: &MachinePool, driver: &Driver) -> Wait {
    Wait::new(
        Code::WaitingForDriverSchema,
        identity(cluster).to_string(),
        format!("waiting for the fields of node driver {} for pool {}", driver.name(), pool.name),
        "activate the node driver; its DynamicSchema follows",
    )
}

/// The schemas to write into pools that have none, or one that is not readable: pool's index and the text.
pub fn missing(cluster: &Cluster, schemas: &BTreeMap<String, DynamicSchema>) -> Vec<(usize, String)> {
    let pools = cluster.spec.rke_config.iter().flat_map(|config| &config.machine_pools).enumerate();
    pools
        .filter(|(_, pool)| !matches!(frozen(pool), Ok(Some(_))))
        .filter_map(|(index, pool)| {
            let schema = schemas.get(&source::driver(pool)?.schema_name())?;
            Some((index, serde_json::to_string(&schema.spec).ok()?))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use api::provisioning::v1::RKEConfig;
    use k8s_openapi::api::core::v1::ObjectReference;

    use super::*;

    #[test]
    fn only_pools_of_drivers_without_a_schema_get_one() {
        let pool = |api_version: Option<&str>, kind: &str, text: &str| MachinePool {
            machine_config_ref: Some(ObjectReference {
                api_version: api_version.map(Into::into),
                kind: Some(kind.into()),
                ..Default::default()
            }),
            dynamic_schema_spec: text.into(),
            ..Default::default()
        };
        let mut cluster = Cluster::default();
        cluster.spec.rke_config = Some(RKEConfig {
            machine_pools: vec![
                pool(None, "SimConfig", ""),
                pool(None, "SimConfig", "{\"resourceFields\":{}}"),
                pool(None, "SimConfig", "garbage"),
                pool(None, "OtherConfig", ""),
                pool(Some("infrastructure.cluster.x-k8s.io/v1beta1"), "VSphereMachineTemplate", ""),
            ],
            ..Default::default()
        });
        let schemas = BTreeMap::from([("simconfig".to_owned(), DynamicSchema::default())]);
        let filled: Vec<usize> = missing(&cluster, &schemas).into_iter().map(|(index, _)| index).collect();
        assert_eq!(filled, [0, 2]);
    }
}
