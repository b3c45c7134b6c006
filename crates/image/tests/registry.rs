//! Pulls from the real registry, over TLS, with a password.

#![expect(clippy::unwrap_used, reason = "a failed step is a failed test")]

#[path = "support/image.rs"]
mod image_files;

use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;
use std::process::Command;

use image::{Options, stage};
use image_files::Image;
use peers::Peer;
use peers::process::Process;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};

/// `alice:secret`, by bcrypt: the only hash that the registry takes.
const HTPASSWD: &str = "alice:$2b$04$85wo9W0lNCOEZ54OO8kjhOmJR.atH8IHxcong9Gu7dgT2ELhyst/.\n";

/// A running registry with one image, `team/app:v1` and `mirrored/app:v1`.
struct Registry {
    port: u16,
    directory: tempfile::TempDir,
    _process: Process,
}

impl Registry {
    fn start(image: &Image) -> Self {
        let program = Peer::Registry.provide().unwrap().path.join("registry");
        let directory = tempfile::tempdir().unwrap();
        identity(directory.path(), "ca", "tls");
        identity(directory.path(), "other-ca", "other");
        std::fs::write(directory.path().join("htpasswd"), HTPASSWD).unwrap();
        // The port may be taken between choosing and using it: then another one is chosen.
        for _ in 0..5 {
            let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port();
            let config = directory.path().join("config.yml");
            std::fs::write(&config, configuration(directory.path(), port)).unwrap();
            let arguments = ["serve".to_owned(), config.display().to_string()];
            let mut process = Process::start("registry", &program, &arguments, directory.path()).unwrap();
            if is_up(&mut process, directory.path(), port) {
                let registry = Registry { port, directory, _process: process };
                registry.push(image, "team/app");
                registry.push(image, "mirrored/app");
                return registry;
            }
        }
        panic!("the registry does not start");
    }

    fn push(&self, image: &Image, repository: &str) {
        for (digest, bytes) in &image.blobs {
            let head = self
                .curl(&format!("/v2/{repository}/blobs/uploads/"), &["--http1.1", "-X", "POST", "-D", "-"]);
            let location = head.lines().find_map(|line| line.strip_prefix("Location: ")).unwrap().trim();
            let path = &location[location.find("/v2/").unwrap()..];
            self.put(&format!("{path}&digest={digest}"), "application/octet-stream", bytes);
        }
        for (name, kind) in
            [(&image.manifest, "manifest"), (&image.index, "index"), (&"v1".to_owned(), "index")]
        {
            let bytes = image.manifests.get(name).unwrap_or_else(|| &image.manifests[&image.index]);
            let media = format!("application/vnd.oci.image.{kind}.v1+json");
            self.put(&format!("/v2/{repository}/manifests/{name}"), &media, bytes);
        }
    }

    fn put(&self, path: &str, media: &str, bytes: &[u8]) {
        let file = self.directory.path().join("upload");
        std::fs::write(&file, bytes).unwrap();
        let (header, data) = (format!("Content-Type: {media}"), format!("@{}", file.display()));
        self.curl(path, &["-X", "PUT", "-H", &header, "--data-binary", &data]);
    }

    fn curl(&self, path: &str, arguments: &[&str]) -> String {
        curl(self.directory.path(), self.port, path, arguments).unwrap()
    }

    fn host(&self) -> String {
        format!("localhost:{}", self.port)
    }

    /// `registries.yaml` for it: its address for another registry, with a CA and a password.
    fn registries(&self, ca: &str, password: &str) -> String {
        let (host, directory) = (self.host(), self.directory.path().display());
        format!(
            "mirrors:\n  registry.invalid:\n    endpoint: [\"https://{host}\"]\n    rewrite: {{\"^far/(.*)\": \"mirrored/$1\"}}\n\
             configs:\n  \"{host}\":\n    auth: {{username: alice, password: {password}}}\n    tls: {{ca_file: {directory}/{ca}.pem}}\n"
        )
    }
}

/// Whether it answers within a minute, before it ends.
fn is_up(process: &mut Process, directory: &Path, port: u16) -> bool {
    for _ in 0..1200 {
        if process.ended().is_some() {
            return false;
        }
        if curl(directory, port, "/v2/", &[]).is_ok() {
            return true;
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    false
}

fn curl(
    directory: &Path,
    port: u16,
    path: &str,
    arguments: &[&str],
) -> Result<String, peers::command::Error> {
    let mut command = Command::new("curl");
    command.args(["-sSf", "--noproxy", "*", "-u", "alice:secret", "--cacert"]).arg(directory.join("ca.pem"));
    command.args(arguments).arg(format!("https://localhost:{port}{path}"));
    peers::command::run(&mut command)
}

fn configuration(directory: &Path, port: u16) -> String {
    let directory = directory.display();
    format!(
        "version: 0.1\nlog: {{level: warn}}\nstorage: {{filesystem: {{rootdirectory: {directory}/data}}}}\n\
         http:\n  addr: 127.0.0.1:{port}\n  tls: {{certificate: {directory}/tls.pem, key: {directory}/tls.key}}\n\
         auth: {{htpasswd: {{realm: test, path: {directory}/htpasswd}}}}\n"
    )
}

/// Writes an authority and a certificate of it for this machine.
fn identity(directory: &Path, ca_name: &str, name: &str) {
    let ca_key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    // With the same name as the certificate's it would be taken for the same.
    params.distinguished_name.push(DnType::CommonName, "authority of a test");
    let ca = params.self_signed(&ca_key).unwrap();
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::new(vec!["localhost".into()]).unwrap();
    let certificate = certificate.signed_by(&key, &Issuer::new(params, ca_key)).unwrap();
    for (file, text) in [
        (format!("{ca_name}.pem"), ca.pem()),
        (format!("{name}.pem"), certificate.pem()),
        (format!("{name}.key"), key.serialize_pem()),
    ] {
        std::fs::write(directory.join(file), text).unwrap();
    }
}

#[test]
#[ignore = "peers: registry"]
fn a_real_registry_is_pulled_from() {
    if peers::skip("image") {
        return;
    }
    let image = Image::new("hello from a registry");
    let registry = Registry::start(&image);
    let host = registry.host();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    for (reference, ca, password, expected) in [
        (format!("{host}/team/app:v1"), "ca", "secret", Ok(())),
        (format!("{host}/team/app@{}", image.index), "ca", "secret", Ok(())),
        (format!("{host}/team/app:other@{}", image.manifest), "ca", "secret", Ok(())),
        ("registry.invalid/far/app:v1".into(), "ca", "secret", Ok(())),
        (format!("registry.invalid/far/app@{}", image.manifest), "ca", "secret", Ok(())),
        (format!("{host}/team/app:v2"), "ca", "secret", Err("404 Not Found")),
        (format!("{host}/team/app@{}", image.layer), "ca", "secret", Err("404 Not Found")),
        (format!("{host}/team/app:v1"), "ca", "wrong", Err("401 Unauthorized")),
        (format!("{host}/team/app:v1"), "other-ca", "secret", Err("name its authority in registries.yaml")),
    ] as [(String, &str, &str, Result<(), &str>); 9]
    {
        let scratch = tempfile::tempdir().unwrap();
        let registries = scratch.path().join("registries.yaml");
        // A name on this machine with a port of its own would be asked without TLS: so it is its own mirror.
        let own = format!("  \"{host}\": {{endpoint: [\"https://{host}\"]}}\nconfigs:");
        let text = registry.registries(ca, password).replace("configs:", &own);
        std::fs::write(&registries, text).unwrap();
        let options = Options {
            images: scratch.path().join("images"),
            registries: vec![registries],
            ..Options::from_variables(|_| None)
        };
        let into = scratch.path().join("out");
        let result = runtime.block_on(stage(&options, &reference, &into));
        match (result, expected) {
            (Ok(_), Ok(())) => {
                let hello = std::fs::read_to_string(into.join("hello")).unwrap();
                assert_eq!(hello, "hello from a registry", "{reference}");
            }
            (Err(error), Err(message)) => {
                assert!(error.to_string().contains(message), "{reference}: {error}")
            }
            (result, _) => panic!("{reference} with {ca}, {password}: {result:?}"),
        }
    }
}
