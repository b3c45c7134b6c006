//! The port itself: TLS, certificates that change, what anybody may get, an orderly end.

use std::sync::Arc;
use std::time::Duration;

use agent::kubeconfig::Kubeconfig;
use clock::{Clock as _, SeededEntropy, SystemClock};
use gateway::certificates::Authority;
use gateway::{Authorities, Certificates};
use http::{Method, StatusCode};
use http_body_util::BodyExt as _;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use tokio::net::{TcpListener, TcpStream};

use crate::nodes::token_of;
use crate::world::{ADMIN_TOKEN, World, request, send};

#[tokio::test(start_paused = true)]
async fn what_anybody_may_get() {
    let world = World::new().await;
    let (code, ca) = world.ask("/cacerts", &[]).await;
    assert_eq!((code, ca.as_str()), (StatusCode::OK, "PEM\n"));
    let (code, script) = world.ask("/system-agent-install.sh", &[]).await;
    assert_eq!(code, StatusCode::OK);
    assert!(script.contains("CATTLE_SERVER='https://herd.example.com'") && script.contains("main \"$@\""));
    for (path, code, said) in [
        ("/healthz", 200, "ok"),
        ("/livez", 200, "ok"),
        ("/readyz", 200, "ok"),
        ("/version", 200, "gitVersion"),
        ("/assets/system-agent-uninstall.sh", 200, "#!/"),
        ("/assets/rancher-system-agent-riscv64", 404, "rancher-system-agent-riscv64"),
        ("/assets/..%2f..%2fetc%2fpasswd", 404, "has no"),
        ("/wins-agent-install.ps1", 404, "put its install.ps1, as wins-agent-install.ps1"),
        ("/v3/import/nonsense.yaml", 404, "token"),
        ("/metrics", 403, "system:anonymous"),
        ("/api/v1/secrets", 403, "system:anonymous"),
        ("/nowhere", 403, "system:anonymous"),
    ] {
        let (found, text) = world.ask(path, &[]).await;
        assert_eq!(found.as_u16(), code, "{path}: {text}");
        assert!(text.contains(said), "{path}: {text}");
    }
    let posted = world.send(request(Method::POST, "/cacerts", &[], bytes::Bytes::new())).await;
    assert_eq!(posted.status(), StatusCode::METHOD_NOT_ALLOWED);
}

/// A server over TLS on the loopback.
struct Served {
    world: World,
    shown: Certificates,
    port: u16,
    listening: tokio::task::JoinHandle<()>,
}

fn names() -> Vec<String> {
    vec!["127.0.0.1".into()]
}

async fn serve(authorities: Authorities) -> Served {
    let world = World::new().await;
    let entropy = Box::new(SeededEntropy::new(21));
    let shown = Certificates::issued(authorities, names(), Arc::new(SystemClock), entropy).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    world.public.send_modify(|public| {
        public.url = format!("https://127.0.0.1:{port}");
        public.ca_certificates = shown.trusted();
    });
    let tls = shown.server_config().unwrap();
    let listening = tokio::spawn(gateway::listen(world.gateway.clone(), listener, Some(tls)));
    Served { world, shown, port, listening }
}

/// Whether a node with this connection info reaches the server, and trusts it by nothing else.
async fn reaches(connection: &serde_json::Value) -> bool {
    let kubeconfig = Kubeconfig::parse(connection["kubeConfig"].as_str().unwrap()).unwrap();
    let machine = agent::machine::Machine::this(Vec::new(), Arc::new(agent::machine::NoImages));
    agent::start::client(&kubeconfig, true, &machine).await.is_ok()
}

fn new_authorities(seed: u64) -> Authorities {
    Authorities::only(Authority::new(SystemClock.now(), &mut SeededEntropy::new(seed)).unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_follow_when_the_authority_changes() {
    let first = new_authorities(31);
    let served = serve(first.clone()).await;
    let machine = served.world.machine("m1").await;
    let before = served.world.registered(&machine.token, "1").await;
    assert!(reaches(&before).await);
    let second = first.succeeded(SystemClock.now(), &mut SeededEntropy::new(32)).unwrap();
    served.shown.replace_issued(second.clone(), names()).unwrap();
    served.world.public.send_modify(|public| public.ca_certificates = served.shown.trusted());
    assert!(reaches(&before).await, "the old authority has signed the new one's key");
    let after = served.world.registered(&machine.token, "1").await;
    assert!(reaches(&after).await);
    let (_, trusted) = served.world.ask("/cacerts", &[]).await;
    assert_eq!(trusted, second.trusted());
    served.shown.replace_issued(second.alone(), names()).unwrap();
    assert!(reaches(&after).await);
    assert!(!reaches(&before).await, "nobody vouches for the new one any more");
    served.shown.replace_issued(new_authorities(33), names()).unwrap();
    assert!(!reaches(&after).await);
    served.world.gateway.close();
    served.listening.await.unwrap();
}

async fn dial(served: &Served, protocol: &[u8]) -> tokio_rustls::client::TlsStream<TcpStream> {
    let mut roots = rustls::RootCertStore::empty();
    for root in CertificateDer::pem_slice_iter(served.shown.trusted().as_bytes()) {
        roots.add(root.unwrap()).unwrap();
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder =
        rustls::ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let mut config = builder.with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = vec![protocol.to_vec()];
    let stream = TcpStream::connect(("127.0.0.1", served.port)).await.unwrap();
    let name = ServerName::try_from("127.0.0.1").unwrap();
    tokio_rustls::TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn both_versions_of_http_are_spoken_and_the_end_is_orderly() {
    let served = serve(new_authorities(41)).await;
    let admin = format!("Bearer {ADMIN_TOKEN}");
    let plain = dial(&served, b"http/1.1").await;
    let answer = send(plain, request(Method::GET, "/cacerts", &[], bytes::Bytes::new())).await;
    assert_eq!(answer.into_body().collect().await.unwrap().to_bytes(), served.shown.trusted());

    let stream = TokioIo::new(dial(&served, b"h2").await);
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), stream).await.unwrap();
    let connection = tokio::spawn(connection);
    let url = format!("https://127.0.0.1:{}/api/v1/namespaces?watch=true", served.port);
    let ask = request(Method::GET, &url, &[("authorization", &admin)], bytes::Bytes::new());
    let mut watch = sender.send_request(ask).await.unwrap();
    assert_eq!(watch.status(), StatusCode::OK);
    let first = watch.body_mut().frame().await.unwrap().unwrap().into_data().unwrap();
    assert!(first.starts_with(b"{\"type\":\"ADDED\""), "{first:?}");
    let ended = async {
        served.world.gateway.close();
        // Watches end, so that clients begin them anew elsewhere.
        while let Some(frame) = watch.body_mut().frame().await {
            frame.unwrap();
        }
        drop(sender);
        let _ = connection.await;
        served.listening.await.unwrap();
    };
    tokio::time::timeout(Duration::from_secs(60), ended).await.unwrap();
    assert!(TcpStream::connect(("127.0.0.1", served.port)).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn a_server_whose_url_nobody_said_is_where_it_was_asked() {
    let world = World::new().await;
    world.public.send_modify(|public| {
        public.url.clear();
        public.ca_certificates.clear();
    });
    let machine = world.machine("m1").await;
    let connection = world.registered(&machine.token, "1").await;
    let kubeconfig = Kubeconfig::parse(connection["kubeConfig"].as_str().unwrap()).unwrap();
    assert_eq!((kubeconfig.server.to_string(), kubeconfig.ca), ("https://herd.example.com/".into(), None));
    assert!(token_of(&connection).starts_with("hat_"));
}
