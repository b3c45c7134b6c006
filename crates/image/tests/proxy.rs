//! Pulls over TLS through a proxy: the proxy is asked for a way (CONNECT) and sees nothing of what passes.

#![expect(clippy::unwrap_used, reason = "a failed step is a failed test")]

#[path = "support/http.rs"]
#[expect(dead_code, reason = "the suite of pulls needs more of it")]
mod http;
#[path = "support/image.rs"]
#[expect(dead_code, reason = "the suite of pulls needs more of it")]
mod image_files;

use std::sync::{Arc, Mutex};

use http::{Server, as_registry};
use image::{Options, Proxies, stage};
use image_files::Image;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use rustls::pki_types::PrivateKeyDer;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

/// A name that nobody but the proxy can find.
const HOST: &str = "registry.invalid";
/// `user:pass word`.
const AUTHORIZATION: &str = "Proxy-Authorization: Basic dXNlcjpwYXNzIHdvcmQ=";

/// A registry behind TLS, and the authority to trust, in PEM.
async fn registry(image: Image) -> (Server, String) {
    let ca_key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    // With the same name as the certificate's it would be taken for the same.
    params.distinguished_name.push(DnType::CommonName, "authority of a test");
    let ca = params.self_signed(&ca_key).unwrap();
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::new(vec![HOST.into()]).unwrap();
    let certificate = certificate.signed_by(&key, &Issuer::new(params, ca_key)).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(
            vec![certificate.der().clone()],
            PrivateKeyDer::try_from(key.serialize_der()).unwrap(),
        )
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let server = Server::start_with(Some(acceptor), move |request| as_registry(&image, request)).await;
    (server, ca.pem())
}

/// A proxy that leads everybody who may use it to one port, whatever they ask for.
struct Proxy {
    port: u16,
    /// What it was asked, and the first byte that passed then.
    seen: Arc<Mutex<Vec<(String, u8)>>>,
}

impl Proxy {
    async fn start(to: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let noted = seen.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let noted = noted.clone();
                // A client that goes away early is the client's business.
                tokio::spawn(async move { drop(lead(stream, to, &noted).await) });
            }
        });
        Proxy { port, seen }
    }
}

async fn lead(mut client: TcpStream, to: u16, noted: &Mutex<Vec<(String, u8)>>) -> std::io::Result<()> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(client.read_u8().await?);
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    if !head.contains(AUTHORIZATION) {
        client.write_all(b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n").await?;
        return client.shutdown().await;
    }
    client.write_all(b"HTTP/1.1 200 Connection established\r\nVia: test\r\n\r\n").await?;
    let first = client.read_u8().await?;
    noted.lock().unwrap().push((head, first));
    let mut server = TcpStream::connect(("127.0.0.1", to)).await?;
    server.write_all(&[first]).await?;
    tokio::io::copy_bidirectional(&mut client, &mut server).await.map(drop)
}

/// Pulls through the proxy, with these words before its address.
async fn pull(proxy: &Proxy, user: &str, ca: &str) -> Result<String, image::Error> {
    let scratch = tempfile::tempdir().unwrap();
    let path = |name: &str| scratch.path().join(name);
    std::fs::write(path("ca.pem"), ca).unwrap();
    let registries = format!("configs: {{{HOST}: {{tls: {{ca_file: {}}}}}}}", path("ca.pem").display());
    std::fs::write(path("registries.yaml"), registries).unwrap();
    let address = format!("http://{user}127.0.0.1:{}", proxy.port);
    let options = Options {
        images: path("images"),
        registries: vec![path("registries.yaml")],
        proxies: Proxies::from_variables(|name| (name == "HTTPS_PROXY").then(|| address.clone())),
        ..Options::from_variables(|_| None)
    };
    stage(&options, &format!("{HOST}/team/app:v1"), &path("out")).await?;
    Ok(std::fs::read_to_string(path("out/hello")).unwrap())
}

#[tokio::test]
async fn a_registry_is_reached_through_connect() {
    let (server, ca) = registry(Image::new("hi")).await;
    let proxy = Proxy::start(server.port).await;
    assert_eq!(pull(&proxy, "user:pass%20word@", &ca).await.unwrap(), "hi");
    let seen = proxy.seen.lock().unwrap().clone();
    assert_eq!(seen.len(), server.requests().len(), "every request came this way");
    for (head, first) in seen {
        assert!(head.starts_with(&format!("CONNECT {HOST}:443 HTTP/1.1\r\nHost: {HOST}:443\r\n")), "{head}");
        assert_eq!(first, 22, "a TLS handshake, and no word in the clear");
    }
    let request = &server.requests()[0];
    assert_eq!(
        (request.target.as_str(), request.headers["host"].as_str()),
        ("/v2/team/app/manifests/v1", HOST)
    );
    assert!(!request.headers.contains_key("proxy-authorization"), "that is for the proxy alone");
}

#[tokio::test]
async fn what_a_proxy_refuses_is_told() {
    let (server, ca) = registry(Image::new("hi")).await;
    let proxy = Proxy::start(server.port).await;
    let error = pull(&proxy, "", &ca).await.unwrap_err().to_string();
    assert!(error.contains("the proxy says: HTTP/1.1 407 Proxy Authentication Required"), "{error}");
    assert!(server.requests().is_empty());
}

#[tokio::test]
async fn a_proxy_is_not_trusted_in_the_place_of_the_registry() {
    let (server, _) = registry(Image::new("hi")).await;
    let (_, other) = registry(Image::new("hi")).await;
    let proxy = Proxy::start(server.port).await;
    let error = pull(&proxy, "user:pass%20word@", &other).await.unwrap_err().to_string();
    assert!(error.contains("name its authority in registries.yaml"), "{error}");
}
