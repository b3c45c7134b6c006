//! Container images of a few files, written as `docker save` would: for Docker, containerd, and our own agent.

use std::fs::File;
use std::io::{self, Seek as _, Write};
use std::path::Path;

use serde_json::json;
use sha2::{Digest as _, Sha256};

/// A file in an image.
#[derive(Clone, Copy, Debug)]
pub struct Entry<'a> {
    /// Where it is in the image, without the first slash.
    pub path: &'a str,
    /// Where it is on this machine.
    pub from: &'a Path,
    /// Its permissions.
    pub mode: u32,
}

/// An image of one layer.
#[derive(Clone, Copy, Debug)]
pub struct Image<'a> {
    /// Its name, with the tag.
    pub name: &'a str,
    /// What it runs; nothing for an image that only brings files.
    pub entrypoint: &'a [&'a str],
    /// What is in it.
    pub files: &'a [Entry<'a>],
}

impl Image<'_> {
    /// Writes it into one file. The same files give the same bytes.
    ///
    /// # Errors
    /// If a file cannot be read, or the archive not be written.
    pub fn write(&self, archive: &Path) -> io::Result<()> {
        let layer_path = archive.with_extension("layer");
        let digest = self.layer(&layer_path)?;
        let written = self.outer(archive, &layer_path, &digest);
        std::fs::remove_file(&layer_path)?;
        written
    }

    /// Writes the layer and gives its digest.
    fn layer(&self, path: &Path) -> io::Result<String> {
        let mut layer = tar::Builder::new(Hashed { hash: Sha256::new(), file: File::create(path)? });
        for entry in self.files {
            let file = File::open(entry.from)?;
            let mut header = header(file.metadata()?.len(), entry.mode);
            layer.append_data(&mut header, entry.path, file)?;
        }
        Ok(hex(layer.into_inner()?.hash))
    }

    fn outer(&self, archive: &Path, layer: &Path, digest: &str) -> io::Result<()> {
        let config = json!({
            "architecture": architecture(),
            "os": "linux",
            "config": {"Entrypoint": self.entrypoint},
            "rootfs": {"type": "layers", "diff_ids": [format!("sha256:{digest}")]},
        });
        let config = config.to_string();
        let config_name = format!("{}.json", sha256(config.as_bytes()));
        let layer_name = format!("{digest}/layer.tar");
        let list = json!([{"Config": config_name, "RepoTags": [self.name], "Layers": [layer_name]}]);
        let mut outer = tar::Builder::new(File::create(archive)?);
        for (name, text) in [("manifest.json", &list.to_string()), (&config_name, &config)] {
            outer.append_data(&mut header(text.len() as u64, 0o644), name, text.as_bytes())?;
        }
        let mut file = File::open(layer)?;
        let length = file.seek(io::SeekFrom::End(0))?;
        file.rewind()?;
        outer.append_data(&mut header(length, 0o644), layer_name, file)?;
        outer.into_inner()?.flush()
    }
}

/// As images call this machine's processor.
fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

fn header(size: u64, mode: u32) -> tar::Header {
    let mut header = tar::Header::new_gnu();
    header.set_size(size);
    header.set_mode(mode);
    header
}

/// The SHA-256 of some bytes, in hexadecimal.
pub fn sha256(bytes: &[u8]) -> String {
    hex(Sha256::new_with_prefix(bytes))
}

fn hex(hash: Sha256) -> String {
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// What passes is hashed.
struct Hashed {
    hash: Sha256,
    file: File,
}

impl Write for Hashed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.file.write(bytes)?;
        self.hash.update(&bytes[..count]);
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::io::Read as _;

    use super::*;
    use crate::scratch::Scratch;

    fn entries(bytes: &[u8]) -> BTreeMap<String, Vec<u8>> {
        let mut archive = tar::Archive::new(bytes);
        let read = |entry: io::Result<tar::Entry<'_, &[u8]>>| {
            let (mut entry, mut content) = (entry.unwrap(), Vec::new());
            entry.read_to_end(&mut content).unwrap();
            (entry.path().unwrap().display().to_string(), content)
        };
        archive.entries().unwrap().map(read).collect()
    }

    #[test]
    fn an_image_is_what_docker_saves() {
        let scratch = Scratch::new("archive");
        let (program, archive) = (scratch.path().join("program"), scratch.path().join("image.tar"));
        std::fs::write(&program, "#!/bin/sh\n").unwrap();
        let files = [Entry { path: "bin/program", from: &program, mode: 0o755 }];
        let image = Image { name: "a/b:v1", entrypoint: &["/bin/program"], files: &files };
        image.write(&archive).unwrap();
        let bytes = std::fs::read(&archive).unwrap();
        let outer = entries(&bytes);
        let list: serde_json::Value = serde_json::from_slice(&outer["manifest.json"]).unwrap();
        assert_eq!(list[0]["RepoTags"], json!(["a/b:v1"]));
        let layer = &outer[list[0]["Layers"][0].as_str().unwrap()];
        assert_eq!(entries(layer)["bin/program"], b"#!/bin/sh\n");
        let config: serde_json::Value =
            serde_json::from_slice(&outer[list[0]["Config"].as_str().unwrap()]).unwrap();
        let digest = sha256(layer);
        assert_eq!(config["rootfs"]["diff_ids"], json!([format!("sha256:{digest}")]));
        image.write(&archive).unwrap();
        assert_eq!(std::fs::read(&archive).unwrap(), bytes, "the same files, the same bytes");
        assert_eq!(scratch.path().read_dir().unwrap().count(), 2, "nothing else is left");
    }
}
