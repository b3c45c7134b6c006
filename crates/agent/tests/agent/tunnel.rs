//! `herdsman-agent tunnel` against a hub of ours, over real sockets and TLS.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use clock::{SystemClock, SystemEntropy};
use http::{Request, request};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use sha2::{Digest as _, Sha256};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;
use tunnel::hub::{Authorizer, Verdict};
use tunnel::serve::Later;
use tunnel::session::Settings;
use tunnel::{ClientKey, Hub, Target};

use crate::support::Authority;

const PATIENCE: Duration = Duration::from_secs(60);

/// Remembers who asked; the token decides.
#[derive(Clone, Default)]
struct Door(Arc<Mutex<Vec<(String, serde_json::Value)>>>);

impl Authorizer for Door {
    fn authorize<'a>(&'a self, head: &'a request::Parts) -> Later<'a, Verdict> {
        let header =
            |name: &str| head.headers.get(name).map(|value| value.to_str().unwrap()).unwrap_or_default();
        let params = STANDARD.decode(header("x-api-tunnel-params")).unwrap();
        let asked = (head.uri.path().to_owned(), serde_json::from_slice(&params).unwrap());
        self.0.lock().unwrap().push(asked);
        let known = header("x-api-tunnel-token") == "t0ken";
        Box::pin(async move { if known { Verdict::Is(key()) } else { Verdict::Nobody } })
    }
}

fn key() -> ClientKey {
    ClientKey::new("c-m-1").unwrap()
}

/// A server with a hub, behind TLS.
async fn server(authority: &Authority) -> (Hub, Door, String) {
    let hub = Hub::new(Settings::default(), Arc::new(SystemClock), Box::new(SystemEntropy));
    let (door, acceptor) = (Door::default(), TlsAcceptor::from(authority.server(false)));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}", listener.local_addr().unwrap());
    let of_server = (hub.clone(), door.clone(), authority.pem.clone());
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let ((hub, door, pem), acceptor) = (of_server.clone(), acceptor.clone());
            tokio::spawn(async move {
                let Ok(stream) = acceptor.accept(stream).await else { return };
                let service = service_fn(move |request: Request<Incoming>| {
                    let (hub, door, pem) = (hub.clone(), door.clone(), pem.clone());
                    async move {
                        let answer = match request.uri().path() {
                            "/cacerts" => http::Response::new(Full::from(pem)),
                            _ => hub.answer(request, &door).await,
                        };
                        Ok::<_, std::convert::Infallible>(answer)
                    }
                });
                let http = hyper::server::conn::http1::Builder::new();
                let _ = http.serve_connection(TokioIo::new(stream), service).with_upgrades().await;
            });
        }
    });
    (hub, door, url)
}

/// What stands for the cluster's API.
async fn cluster() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let (mut from, mut to) = stream.split();
                let _ = tokio::io::copy(&mut from, &mut to).await;
            });
        }
    });
    address
}

/// The binary, running; ended when this is dropped.
struct Agent(Child);

impl Agent {
    fn start(config: &Path) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_herdsman-agent"));
        command.arg("tunnel").env("CATTLE_TUNNEL_CONFIG", config).env("CATTLE_AGENT_STRICT_VERIFY", "true");
        Agent(command.stdout(Stdio::null()).spawn().unwrap())
    }

    fn end(mut self) -> Option<i32> {
        let pid = rustix::process::Pid::from_child(&self.0);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        self.0.wait().unwrap().code()
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        // Both fail only for a process that has ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn write(path: &Path, text: &str) {
    std::fs::write(path, text).unwrap();
    std::fs::set_permissions(path, PermissionsExt::from_mode(0o600)).unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_server_reaches_the_cluster_through_the_machine() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    let authority = Authority::new();
    let ((hub, door, url), address) = (server(&authority).await, cluster().await);
    let file = |key: &str, name: &str| format!("{key}: {}\n", at(name).display());
    let config = [
        format!("serverUrl: {url}\nclusterAddress: {address}\n"),
        file("tokenFile", "token"),
        file("caFile", "server-ca"),
        file("clusterTokenFile", "sa"),
        file("clusterCaFile", "ca"),
    ];
    write(&at("tunnel.yaml"), &config.concat());
    write(&at("server-ca"), &authority.pem);
    write(&at("token"), "t0ken\n");
    write(&at("sa"), "s4");
    // The cluster does not run yet: its authority comes later.
    let agent = Agent::start(&at("tunnel.yaml"));
    write(&at("ca"), "PEM");
    tokio::time::timeout(PATIENCE, hub.wait_for(&key())).await.unwrap();

    let mut stream = hub.dial(&key(), &Target::tcp(&address)).unwrap();
    stream.write_all(b"hello").await.unwrap();
    stream.shutdown().await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert_eq!(answer, "hello");
    let mut other = hub.dial(&key(), &Target::tcp("127.0.0.1:22")).unwrap();
    assert_eq!(other.read_u8().await.unwrap_err().to_string(), "connect not allowed");

    let (path, params) = door.0.lock().unwrap()[0].clone();
    assert_eq!(path, "/v3/connect/register");
    assert_eq!(params["cluster"], serde_json::json!({"address": address, "token": "s4", "caCert": "UEVN"}));
    // After a session that was lost it comes back, as one that is known.
    hub.disconnect(&key());
    tokio::time::timeout(PATIENCE, async {
        while door.0.lock().unwrap().len() < 2 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await
    .unwrap();
    assert_eq!(door.0.lock().unwrap()[1].0, "/v3/connect");
    assert_eq!(agent.end(), Some(0));
}

/// A cluster's API that gives tokens to whoever has a certificate of its authority.
async fn tokens(authority: &Authority) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (address, acceptor) = (listener.local_addr().unwrap(), TlsAcceptor::from(authority.server(true)));
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let Ok(stream) = acceptor.accept(stream).await else { continue };
            let service = service_fn(|request: Request<Incoming>| {
                assert_eq!(
                    request.uri().path(),
                    "/api/v1/namespaces/cattle-system/serviceaccounts/cattle/token"
                );
                let answer = serde_json::json!({"status": {"token": format!("by {}", request.method())}});
                let body = http_body_util::Full::new(bytes::Bytes::from(answer.to_string()));
                std::future::ready(Ok::<_, std::convert::Infallible>(http::Response::new(body)))
            });
            let http = hyper::server::conn::http1::Builder::new();
            tokio::spawn(http.serve_connection(TokioIo::new(stream), service));
        }
    });
    format!("https://{address}")
}

/// As on a control-plane machine: the cluster is asked for the token, with what its administrator has.
#[tokio::test(flavor = "multi_thread")]
async fn a_machine_asks_its_cluster_for_the_token() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    let (authority, cluster) = (Authority::new(), Authority::new());
    let ((hub, door, url), api) = (server(&authority).await, tokens(&cluster).await);
    let config = serde_json::json!({
        "serverUrl": url, "tokenFile": at("token"), "caFile": at("server-ca"), "clusterAddress": "127.0.0.1:6443",
        "clusterCaFile": at("ca"), "clusterKubeconfig": at("admin.kubeconfig"),
    });
    write(&at("tunnel.yaml"), &config.to_string());
    write(&at("server-ca"), &authority.pem);
    write(&at("token"), "t0ken\n");
    write(&at("ca"), &cluster.pem);
    let _agent = Agent::start(&at("tunnel.yaml"));
    // The distribution writes it when it is there.
    let admin = cluster.issue("admin");
    write(&at("client.crt"), &admin.certificate);
    write(&at("client.key"), &admin.key);
    let user = serde_json::json!({"client-certificate": at("client.crt"), "client-key": at("client.key")});
    let kubeconfig = serde_json::json!({
        "clusters": [{"name": "local", "cluster": {"server": api, "certificate-authority": at("ca")}}],
        "users": [{"name": "user", "user": user}],
        "contexts": [{"name": "Default", "context": {"cluster": "local", "user": "user"}}],
        "current-context": "Default",
    });
    write(&at("admin.kubeconfig"), &kubeconfig.to_string());
    tokio::time::timeout(PATIENCE, hub.wait_for(&key())).await.unwrap();
    assert_eq!(door.0.lock().unwrap()[0].1["cluster"]["token"], "by POST");
}

/// As in a pod: nothing but a checksum says who the server is.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_is_known_by_the_checksum_of_its_authority() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    let authority = Authority::new();
    let ((hub, _, url), address) = (server(&authority).await, cluster().await);
    let file = |key: &str, name: &str| format!("{key}: {}\n", at(name).display());
    let config = [
        format!("serverUrl: {url}\nclusterAddress: {address}\n"),
        file("tokenFile", "token"),
        file("clusterTokenFile", "token"),
        file("clusterCaFile", "token"),
    ];
    write(&at("tunnel.yaml"), &config.concat());
    write(&at("token"), "t0ken\n");
    let sum = |text: &str| Sha256::digest(text).iter().map(|byte| format!("{byte:02X}")).collect::<String>();
    let start = |sum: String| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_herdsman-agent"));
        command.arg("tunnel").env("CATTLE_TUNNEL_CONFIG", at("tunnel.yaml")).env("CATTLE_CA_CHECKSUM", sum);
        Agent(command.stdout(std::fs::File::create(at("log")).unwrap()).spawn().unwrap())
    };
    let stranger = start(sum("another"));
    tokio::time::timeout(PATIENCE, async {
        while !std::fs::read_to_string(at("log")).unwrap().contains("trying again") {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    })
    .await
    .unwrap();
    let log = std::fs::read_to_string(at("log")).unwrap();
    assert!(log.contains("the authority at /cacerts has the checksum"), "{log}");
    assert!(hub.dial(&key(), &Target::tcp(&address)).is_err(), "nobody was let in");
    drop(stranger);
    let _agent = start(sum(&authority.pem));
    tokio::time::timeout(PATIENCE, hub.wait_for(&key())).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mistake_ends_it_and_names_its_field() {
    let directory = tempfile::tempdir().unwrap();
    let config = directory.path().join("tunnel.yaml");
    for (text, said) in [
        ("serverUrl: nowhere\n", "serverUrl: Invalid value: \"nowhere\""),
        ("serverUrl: https://127.0.0.1:1\n", "caFile: Required value"),
        ("allowAnyAddress: 7\n", "allowAnyAddress: Invalid value: 7"),
    ] {
        write(&config, text);
        let mut command = Command::new(env!("CARGO_BIN_EXE_herdsman-agent"));
        command.arg("tunnel").env("CATTLE_TUNNEL_CONFIG", &config).env("CATTLE_AGENT_STRICT_VERIFY", "true");
        let output = tokio::task::spawn_blocking(move || command.output()).await.unwrap().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(1) && stderr.contains(said), "{stderr}");
    }
}
