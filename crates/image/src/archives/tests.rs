use std::io::Write;

use super::*;
use crate::testing::{Entry, archive, file, symlink};

const PLATFORM: (&str, &str) = ("linux", "amd64");

fn platform() -> Platform {
    Platform { os: PLATFORM.0.into(), architecture: PLATFORM.1.into() }
}

fn layer(content: &str) -> String {
    String::from_utf8(archive(&[file("f", content)])).unwrap()
}

fn blob_entry(content: &str) -> (Digest, Entry) {
    let digest = Digest::of(content.as_bytes());
    (digest.clone(), file(&blob(&digest), content))
}

/// What `docker save` writes.
fn docker(tag: &str, content: &str) -> Vec<Entry> {
    let list = serde_json::json!([{"Config": "c.json", "RepoTags": [tag], "Layers": ["x/layer.tar"]}]);
    vec![file("x/layer.tar", &layer(content)), file("manifest.json", &list.to_string())]
}

/// An OCI layout, and the digest of its manifest and of an index around it.
fn oci(annotation: &str, name: &str, content: &str) -> (Vec<Entry>, Digest, Digest) {
    let (layer_digest, layer_entry) = blob_entry(&layer(content));
    let size = layer_entry.content.len();
    let image = serde_json::json!({"schemaVersion": 2, "layers": [{"digest": layer_digest.to_string(), "size": size}]});
    let (image_digest, image_entry) = blob_entry(&image.to_string());
    let other = serde_json::json!({"digest": Digest::of(b"arm").to_string(), "size": 1, "platform": {"os": "linux", "architecture": "arm64"}});
    let ours = serde_json::json!({"digest": image_digest.to_string(), "size": 1, "platform": {"os": "linux", "architecture": "amd64"}});
    let (index_digest, index_entry) =
        blob_entry(&serde_json::json!({"manifests": [other, ours]}).to_string());
    let top = serde_json::json!({"manifests": [{"digest": index_digest.to_string(), "size": 1, "annotations": {annotation: name}}]});
    (
        vec![file("./index.json", &top.to_string()), layer_entry, image_entry, index_entry],
        image_digest,
        index_digest,
    )
}

struct Images(tempfile::TempDir);

impl Images {
    fn new() -> Self {
        Images(tempfile::tempdir().unwrap())
    }

    fn add(&self, path: &str, bytes: &[u8]) -> &Self {
        let path = self.0.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, bytes).unwrap();
        self
    }

    /// The contents of the image's file `f`, and the archive that it is in.
    fn find(&self, image: &str) -> Option<(String, String)> {
        let spool = tempfile::tempdir().unwrap();
        let found =
            find(self.0.path(), &image.parse().unwrap(), &platform(), &Limits::default(), spool.path())
                .unwrap()?;
        let bytes = std::fs::read(&found.layers[0]).unwrap();
        let mut content = String::new();
        let mut layer = tar::Archive::new(&bytes[..]);
        layer.entries().unwrap().next().unwrap().unwrap().read_to_string(&mut content).unwrap();
        Some((content, found.archive.strip_prefix(self.0.path()).unwrap().display().to_string()))
    }
}

fn some(content: &str, archive: &str) -> Option<(String, String)> {
    Some((content.into(), archive.into()))
}

#[test]
fn tags_are_found_whatever_their_spelling() {
    let images = Images::new();
    images
        .add("a.tar", &archive(&docker("rancher/x:v1", "1")))
        .add("b.tar", &archive(&docker("r.io/yy", "2")));
    for (image, expected) in [
        ("rancher/x:v1", some("1", "a.tar")),
        ("docker.io/rancher/x:v1", some("1", "a.tar")),
        ("r.io/yy:latest", some("2", "b.tar")),
        ("rancher/x", None),
        ("s.io/rancher/x:v1", None),
    ] {
        assert_eq!(images.find(image), expected, "{image}");
    }
}

#[test]
fn the_first_archive_by_name_wins_and_broken_ones_are_passed_over() {
    let images = Images::new();
    images.add("z/a.tar", &archive(&docker("a/b", "z")));
    images
        .add("0-broken.tar", b"no archive")
        .add("1-empty.tar", b"")
        .add(".hidden.tar", &archive(&docker("a/b", "hidden")));
    images.add("2.txt", &archive(&docker("a/b", "extension")));
    assert_eq!(images.find("a/b"), some("z", "z/a.tar"));
    images.add("c/d/e.TAR", &archive(&docker("a/b", "c")));
    assert_eq!(images.find("a/b"), some("c", "c/d/e.TAR"));
    assert_eq!(Images::new().find("a/b"), None);
}

#[test]
fn archives_may_be_compressed() {
    let images = Images::new();
    let gzip = |bytes: &[u8]| {
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(bytes).unwrap();
        gzip.finish().unwrap()
    };
    images.add("a.tgz", &gzip(&archive(&docker("a/g", "g"))));
    let zstd = ruzstd::encoding::compress_to_vec(
        &archive(&docker("a/z", "z"))[..],
        ruzstd::encoding::CompressionLevel::Fastest,
    );
    images.add("a.tar.zst", &zstd);
    assert_eq!(images.find("a/g"), some("g", "a.tgz"));
    assert_eq!(images.find("a/z"), some("z", "a.tar.zst"));
}

#[test]
fn oci_layouts_are_found_by_name_and_by_digest() {
    for (annotation, name) in [
        ("org.opencontainers.image.ref.name", "v1"),
        ("org.opencontainers.image.ref.name", "r.io/ab:v1"),
        ("io.containerd.image.name", "r.io/ab:v1"),
    ] {
        let images = Images::new();
        let (entries, image, index) = oci(annotation, name, "1");
        images.add("a.tar", &archive(&entries));
        let by_digest = |digest: &Digest| format!("r.io/ab@{digest}");
        for reference in ["r.io/ab:v1".to_owned(), by_digest(&image), by_digest(&index)] {
            assert_eq!(images.find(&reference), some("1", "a.tar"), "{reference}, named {name}");
        }
        assert_eq!(images.find("r.io/ab:v2"), None);
        assert_eq!(images.find(&by_digest(&Digest::of(b"other"))), None);
    }
}

#[test]
fn what_was_changed_is_not_taken() {
    let (mut entries, image, _) = oci("org.opencontainers.image.ref.name", "v1", "1");
    entries[1].content = layer("2");
    let images = Images::new();
    images.add("a.tar", &archive(&entries));
    assert_eq!(images.find("r.io/ab:v1"), None);
    assert_eq!(images.find(&format!("r.io/ab@{image}")), None);
}

#[test]
fn layers_may_be_links_to_others() {
    let list = serde_json::json!([{"RepoTags": ["a/b:latest"], "Layers": ["y/layer.tar", "x/layer.tar"]}]);
    let entries = [
        file("x/layer.tar", &layer("shared")),
        symlink("y/layer.tar", "../x/layer.tar"),
        file("manifest.json", &list.to_string()),
    ];
    let images = Images::new();
    images.add("a.tar", &archive(&entries));
    assert_eq!(images.find("a/b"), some("shared", "a.tar"));
    let lost = [symlink("x/layer.tar", "../../x"), symlink("y/layer.tar", "gone"), entries[2].clone()];
    images.add("a.tar", &archive(&lost));
    assert_eq!(images.find("a/b"), None);
}
