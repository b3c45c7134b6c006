//! A cloud credential becomes a driver's environment.

use std::collections::BTreeMap;

use api::machine::Driver;

use super::arguments::separated;

/// What a driver's variables begin with, where it is not the driver's own name.
const PREFIXES: [(&str, &str); 6] = [
    ("amazonec2", "AWS"),
    ("rackspace", "OS"),
    ("openstack", "OS"),
    ("vmwarevsphere", "VSPHERE"),
    ("vmwarefusion", "FUSION"),
    ("vmwarevcloudair", "VCLOUDAIR"),
];

/// The environment of a driver: the server's own variables that may be passed on, and the credential.
///
/// `amazonec2credentialConfig-accessKey` is `AWS_ACCESS_KEY`.
pub fn environment(
    driver: &Driver,
    passed_on: &BTreeMap<String, String>,
    credential: &BTreeMap<String, Vec<u8>>,
) -> BTreeMap<String, Vec<u8>> {
    let name = driver.name();
    let prefix =
        PREFIXES.into_iter().find(|(driver, _)| *driver == name).map_or(name.as_str(), |(_, prefix)| prefix);
    let mut all: BTreeMap<String, Vec<u8>> =
        passed_on.iter().map(|(name, value)| (name.clone(), value.clone().into_bytes())).collect();
    all.extend(credential.iter().map(|(key, value)| {
        let field = key.rsplit_once('-').map_or(key.as_str(), |(_, field)| field);
        (format!("{prefix}_{}", separated(field, '_')).to_uppercase(), value.clone())
    }));
    all
}
