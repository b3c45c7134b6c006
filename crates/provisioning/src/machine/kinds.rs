//! A driver's schema becomes its three kinds.

use api::catalogue::labels;
use api::machine::{Driver, UnknownFieldType, definitions};
use api::management::v3::DynamicSchema;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;

/// The driver whose machine configs a schema describes; nothing for schemas of credentials and of other things.
pub fn driver(schema: &DynamicSchema) -> Option<Driver> {
    let name = schema.metadata.name.as_deref()?;
    let labelled = schema.metadata.labels.as_ref()?.get(labels::NODE_DRIVER_NAME)?;
    let driver = Driver::named(labelled)?;
    (driver.schema_name() == name).then_some(driver)
}

/// The definitions of a driver's config, template and machine; nothing if the schema is no driver's.
///
/// # Errors
/// If a field is of a type that machines cannot have.
pub fn kinds(schema: &DynamicSchema) -> Result<Option<[CustomResourceDefinition; 3]>, UnknownFieldType> {
    driver(schema).map(|driver| definitions(&driver, &schema.spec.resource_fields)).transpose()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn only_configs_of_drivers_have_kinds() {
        let schema = |name: &str, driver: Option<&str>| {
            let mut schema = DynamicSchema::default();
            schema.metadata.name = Some(name.into());
            schema.metadata.labels = driver
                .map(|driver| BTreeMap::from([(labels::NODE_DRIVER_NAME.to_owned(), driver.to_owned())]));
            schema
        };
        let made = |schema: &DynamicSchema| {
            let kinds = kinds(schema).unwrap()?;
            Some(kinds.map(|kind| kind.spec.names.kind))
        };
        let expected = ["SimConfig", "SimMachineTemplate", "SimMachine"].map(String::from);
        assert_eq!(made(&schema("simconfig", Some("sim"))), Some(expected));
        assert_eq!(made(&schema("simcredentialconfig", Some("sim"))), None);
        assert_eq!(made(&schema("nodetemplateconfig", None)), None);
    }
}
