//! The files of the key infrastructure, and TLS with them.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use apiserver::pki::{Clients, Keys, Pki};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use clock::{Clock, ManualClock, SeededEntropy};
use jiff::Timestamp;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use rustls::time_provider::TimeProvider;
use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection};
use serde_json::Value;

use crate::support::{NOW, World, headers};

fn clock() -> Arc<ManualClock> {
    Arc::new(ManualClock::at(NOW.parse().unwrap()))
}

fn open(data_dir: &Path) -> Result<Pki, apiserver::pki::Error> {
    let keys = Keys::open(data_dir, &*clock(), &mut SeededEntropy::new(1))?;
    Pki::new(keys, clock(), Box::new(SeededEntropy::new(2)))
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn files_are_made_once() {
    let directory = tempfile::tempdir().unwrap();
    let first = open(directory.path()).unwrap();
    let read = || {
        ["ca.crt", "ca.key", "sa.key"].map(|name| fs::read(directory.path().join("pki").join(name)).unwrap())
    };
    let files = read();
    let second = open(directory.path()).unwrap();
    assert_eq!(first.ca_certificate(), second.ca_certificate());
    assert_eq!(files, read());
    second.signing_key().unwrap();
    let modes = ["ca.crt", "ca.key", "sa.key"].map(|name| mode(&directory.path().join("pki").join(name)));
    assert_eq!(modes, [0o644, 0o600, 0o600]);
    let names: Vec<_> = fs::read_dir(directory.path().join("pki")).unwrap().collect();
    assert_eq!(names.len(), 3, "nothing else is left there: {names:?}");
}

#[test]
fn damage_is_told() {
    let other = tempfile::tempdir().unwrap();
    open(other.path()).unwrap();
    let foreign_key = fs::read(other.path().join("pki/ca.key")).unwrap();
    let cases: [(&str, Option<&[u8]>, &str); 6] = [
        ("ca.crt", Some(b"x"), "the certificate of the authority (ca.crt) is damaged"),
        ("ca.crt", None, ""),
        ("ca.key", Some(b"x"), "the key of the authority (ca.key) is damaged"),
        ("ca.key", None, "ca.key is missing although there is a certificate for it"),
        (
            "ca.key",
            Some(&foreign_key),
            "the certificate (ca.crt) and the key (ca.key) of the authority do not belong together",
        ),
        ("sa.key", Some(b"x"), "the key for tokens of ServiceAccounts (sa.key) is damaged"),
    ];
    for (name, content, expected) in cases {
        let directory = tempfile::tempdir().unwrap();
        open(directory.path()).unwrap();
        let path = directory.path().join("pki").join(name);
        match content {
            Some(content) => fs::write(&path, content).unwrap(),
            None => fs::remove_file(&path).unwrap(),
        }
        let error = open(directory.path()).and_then(|pki| pki.signing_key()).err();
        let message = error.map(|error| error.to_string()).unwrap_or_default();
        assert!(message.contains(expected) && message.is_empty() == expected.is_empty(), "{name}: {message}");
        if let Some(content) = content {
            assert_eq!(fs::read(&path).unwrap(), content, "what is there stays");
        }
    }
}

#[test]
fn an_authority_has_its_time() {
    let directory = tempfile::tempdir().unwrap();
    let keys = Keys::open(directory.path(), &*clock(), &mut SeededEntropy::new(1)).unwrap();
    let late = Arc::new(ManualClock::at("2036-01-02T00:00:00Z".parse().unwrap()));
    let error = Pki::new(keys, late, Box::new(SeededEntropy::new(2))).unwrap_err();
    assert!(error.to_string().contains("is valid from 2026-01-02T02:04:05Z until 2035-12-31"), "{error}");
}

#[derive(Debug)]
struct At(Timestamp);

impl TimeProvider for At {
    fn current_time(&self) -> Option<UnixTime> {
        Some(UnixTime::since_unix_epoch(Duration::from_secs(self.0.as_second().unsigned_abs())))
    }
}

type Identity = (CertificateDer<'static>, PrivateKeyDer<'static>);

fn client(ca: &str, now: Timestamp, identity: Option<Identity>) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(ca.as_bytes()).unwrap()).unwrap();
    let builder =
        ClientConfig::builder_with_details(Arc::new(aws_lc_rs::default_provider()), Arc::new(At(now)))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots);
    let mut config = match identity {
        Some((certificate, key)) => builder.with_client_auth_cert(vec![certificate], key).unwrap(),
        None => builder.with_no_client_auth(),
    };
    config.alpn_protocols = vec![b"h2".to_vec()];
    Arc::new(config)
}

/// The server's side of a handshake in memory.
fn handshake(
    server: &Arc<ServerConfig>,
    client: Arc<ClientConfig>,
    name: &'static str,
) -> Result<ServerConnection, rustls::Error> {
    let mut client = ClientConnection::new(client, name.try_into().unwrap())?;
    let mut server = ServerConnection::new(server.clone())?;
    while client.is_handshaking() || server.is_handshaking() {
        let mut bytes = Vec::new();
        client.write_tls(&mut bytes).unwrap();
        server.read_tls(&mut bytes.as_slice()).unwrap();
        server.process_new_packets()?;
        bytes.clear();
        server.write_tls(&mut bytes).unwrap();
        client.read_tls(&mut bytes.as_slice()).unwrap();
        client.process_new_packets()?;
    }
    Ok(server)
}

/// The client certificate and key of a kubeconfig, which is read as kubectl would.
fn identity(kubeconfig: &str) -> (Value, Identity) {
    let config: Value = serde_saphyr::from_str(kubeconfig).unwrap();
    let user = &config["users"][0]["user"];
    let pem = |field: &str| STANDARD.decode(user[field].as_str().unwrap()).unwrap();
    let certificate = CertificateDer::from_pem_slice(&pem("client-certificate-data")).unwrap();
    let key = PrivateKeyDer::from_pem_slice(&pem("client-key-data")).unwrap();
    (config, (certificate, key))
}

#[tokio::test]
async fn the_administrator_comes_with_a_certificate() {
    let directory = tempfile::tempdir().unwrap();
    let pki = Arc::new(open(directory.path()).unwrap());
    let path = pki.write_admin_kubeconfig(directory.path(), "https://127.0.0.1:6443").unwrap();
    assert_eq!((path.clone(), mode(&path)), (directory.path().join("admin.kubeconfig"), 0o600));
    let (config, admin) = identity(&fs::read_to_string(&path).unwrap());
    assert_eq!(config["clusters"][0]["cluster"]["server"], "https://127.0.0.1:6443");
    let ca = config["clusters"][0]["cluster"]["certificate-authority-data"].as_str().unwrap();
    let ca = String::from_utf8(STANDARD.decode(ca).unwrap()).unwrap();
    assert_eq!(ca, pki.ca_certificate());

    let now = clock().now();
    let names = ["10.96.0.1".to_owned(), "example.com".to_owned()];
    let server = pki.server_config(&names, Clients::MayShowCertificates).unwrap();
    let connection =
        handshake(&server, client(&ca, now, Some((admin.0, admin.1.clone_key()))), "127.0.0.1").unwrap();
    assert_eq!(connection.alpn_protocol(), Some(&b"h2"[..]));
    let world = World::new().await;
    let certificates = connection.peer_certificates().unwrap();
    let user = world.auth.authenticate(&headers(&[]), certificates).await.unwrap();
    assert_eq!((user.name.as_str(), user.uid.as_str()), ("herdsman-admin", ""));
    assert_eq!(user.groups, ["system:masters", "system:authenticated"]);
    let credential = &user.extra["authentication.kubernetes.io/credential-id"][0];
    assert!(credential.starts_with("X509SHA256="), "{credential}");
    world.clock.advance(Duration::from_secs(366 * 24 * 3600));
    let late = world.auth.authenticate(&headers(&[]), certificates).await;
    assert_eq!(late.unwrap_err().code, 401);
}

#[test]
fn servers_have_names_and_clients_may_have_certificates() {
    let directory = tempfile::tempdir().unwrap();
    let pki = Arc::new(open(directory.path()).unwrap());
    let (ca, now) = (pki.ca_certificate().to_owned(), clock().now());
    let names = ["10.96.0.1".to_owned(), "example.com".to_owned()];
    let asks = pki.server_config(&names, Clients::MayShowCertificates).unwrap();
    let never = pki.server_config(&names, Clients::ShowNone).unwrap();
    for name in ["kubernetes.default.svc", "localhost", "::1", "10.96.0.1", "example.com"] {
        let connection = handshake(&asks, client(&ca, now, None), name).unwrap();
        assert!(connection.peer_certificates().is_none(), "{name}");
    }
    assert!(handshake(&asks, client(&ca, now, None), "example.org").is_err());
    let issued = pki.issue_client("ann", "team").unwrap();
    let own = || Some((issued.certificate.clone(), issued.key.clone_key()));
    assert!(handshake(&never, client(&ca, now, own()), "localhost").unwrap().peer_certificates().is_none());
    let elsewhere = tempfile::tempdir().unwrap();
    let foreign = open(elsewhere.path()).unwrap().issue_client("eve", "system:masters").unwrap();
    assert!(
        handshake(&asks, client(&ca, now, Some((foreign.certificate, foreign.key))), "localhost").is_err()
    );
    assert!(handshake(&asks, client(&ca, now, own()), "localhost").unwrap().peer_certificates().is_some());
}

#[test]
fn the_servers_certificate_is_renewed_while_it_runs() {
    let directory = tempfile::tempdir().unwrap();
    let clock = clock();
    let keys = Keys::open(directory.path(), &*clock, &mut SeededEntropy::new(1)).unwrap();
    let pki = Arc::new(Pki::new(keys, clock.clone(), Box::new(SeededEntropy::new(2))).unwrap());
    let server = pki.server_config(&[], Clients::MayShowCertificates).unwrap();
    for _ in 0..20 {
        handshake(&server, client(pki.ca_certificate(), clock.now(), None), "localhost").unwrap();
        clock.advance(Duration::from_secs(100 * 24 * 3600));
    }
    // The clock of the check of client certificates moves with ours.
    let old = pki.issue_client("ann", "team").unwrap();
    clock.advance(Duration::from_secs(366 * 24 * 3600));
    let config = client(pki.ca_certificate(), clock.now(), Some((old.certificate, old.key)));
    assert!(handshake(&server, config, "localhost").is_err());
}
