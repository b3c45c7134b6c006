//! An image: its blobs and manifests by digest.

use std::collections::BTreeMap;
use std::io::Write;

use image::digest::Digest;

/// What a registry holds of an image.
pub(crate) struct Image {
    /// Layers and the configuration.
    pub(crate) blobs: BTreeMap<String, Vec<u8>>,
    /// The manifest for this platform and an index around it.
    pub(crate) manifests: BTreeMap<String, Vec<u8>>,
    pub(crate) manifest: String,
    pub(crate) index: String,
    pub(crate) layer: String,
}

impl Image {
    /// One with a file `hello` that has these contents.
    pub(crate) fn new(content: &str) -> Self {
        let layer = layer(content);
        let config =
            b"{\"architecture\":\"amd64\",\"os\":\"linux\",\"rootfs\":{\"type\":\"layers\",\"diff_ids\":[]}}"
                .to_vec();
        let descriptor = |kind: &str, bytes: &[u8]| {
            let media = format!("application/vnd.oci.image.{kind}");
            serde_json::json!({"mediaType": media, "digest": Digest::of(bytes).to_string(), "size": bytes.len()})
        };
        let manifest = serde_json::json!({
            "schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "config": descriptor("config.v1+json", &config), "layers": [descriptor("layer.v1.tar+gzip", &layer)],
        });
        let manifest = manifest.to_string().into_bytes();
        let mut entry = descriptor("manifest.v1+json", &manifest);
        let ours = image::Platform::ours();
        entry["platform"] = serde_json::json!({"os": ours.os, "architecture": ours.architecture});
        let index = serde_json::json!({
            "schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": [entry],
        });
        let index = index.to_string().into_bytes();
        let name = |bytes: &[u8]| Digest::of(bytes).to_string();
        Image {
            manifest: name(&manifest),
            index: name(&index),
            layer: name(&layer),
            blobs: BTreeMap::from([(name(&layer), layer), (name(&config), config)]),
            manifests: BTreeMap::from([(name(&manifest), manifest), (name(&index), index)]),
        }
    }
}

fn layer(content: &str) -> Vec<u8> {
    let mut tar = tar::Builder::new(Vec::new());
    let mut header = tar::Header::new_gnu();
    header.set_size(content.len() as u64);
    header.set_mode(0o644);
    tar.append_data(&mut header, "hello", content.as_bytes()).unwrap();
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(&tar.into_inner().unwrap()).unwrap();
    gzip.finish().unwrap()
}
