//! The cluster's spec as the control plane carries it, for snapshots to remember.

use api::provisioning::v1::ClusterSpec;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use plan::{gojson, gzip};

/// Base64 of gzip of the JSON of the spec without its requests for operations: a request must not look like a change
/// of the cluster.
///
/// `existing` is kept if it says the same: other versions and other compressors spell it otherwise.
pub(crate) fn encode(spec: &ClusterSpec, existing: Option<&str>) -> String {
    let mut spec = spec.clone();
    if let Some(config) = &mut spec.rke_config {
        config.etcd_snapshot_create = None;
        config.etcd_snapshot_restore = None;
        config.rotate_certificates = None;
        config.rotate_encryption_keys = None;
    }
    match existing.filter(|existing| decode(existing).as_ref() == Some(&spec)) {
        Some(existing) => existing.to_owned(),
        None => STANDARD.encode(gzip::pack(&gojson::to_vec(&spec))),
    }
}

/// The spec that a control plane's annotation or a snapshot's metadata holds; nothing if it is not readable.
pub fn decode(text: &str) -> Option<ClusterSpec> {
    let packed = STANDARD.decode(text.trim()).ok()?;
    serde_json::from_slice(&gzip::unpack(&packed).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use api::provisioning::v1::RKEConfig;
    use api::rke::v1::SnapshotCreate;

    use super::*;

    #[test]
    fn operations_are_left_out_and_what_says_the_same_stays() {
        let mut spec = ClusterSpec { kubernetes_version: "v1.33.5+k3s1".into(), ..Default::default() };
        spec.rke_config = Some(RKEConfig::default());
        let encoded = encode(&spec, None);
        assert_eq!(decode(&encoded).as_ref(), Some(&spec));

        let with_operation = |generation| {
            let mut spec = spec.clone();
            let config = spec.rke_config.as_mut().unwrap();
            config.etcd_snapshot_create = Some(SnapshotCreate { generation });
            spec
        };
        assert_eq!(encode(&with_operation(1), None), encoded);
        assert_eq!(encode(&with_operation(2), None), encoded);

        let loose = STANDARD.encode(gzip::pack(&serde_json::to_vec_pretty(&spec).unwrap()));
        assert_ne!(loose, encoded);
        assert_eq!(encode(&spec, Some(&loose)), loose, "another spelling of the same is left alone");
        spec.kubernetes_version = "v1.34.1+k3s1".into();
        assert_ne!(encode(&spec, Some(&loose)), loose);
        assert_eq!(decode("not base64"), None);
    }
}
