//! The way to the server: TLS and proxies, over real sockets.

use std::sync::{Arc, Mutex};

use agent::kubeconfig::Kubeconfig;
use agent::machine::Machine;
use agent::start::{self, Error};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use crate::support::{Authority, Script, listen, machine};

fn this(environment: &[(&str, String)]) -> Machine {
    let environment = environment.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
    Machine { environment, ..machine("/nowhere".as_ref(), Arc::new(Script::default())) }
}

fn kubeconfig(server: &str, cluster: &str, user: &str) -> Kubeconfig {
    Kubeconfig::parse(&format!(
        "clusters: [{{name: a, cluster: {{server: '{server}', {cluster}}}}}]\nusers: [{{name: a, user: {{{user}}}}}]\ncontexts: [{{name: a, context: {{cluster: a, user: a}}}}]\ncurrent-context: a\n"
    ))
    .unwrap()
}

fn data(pem: &str) -> String {
    STANDARD.encode(pem)
}

#[tokio::test]
async fn trust() {
    let (authority, other) = (Authority::new(), Authority::new());
    let address = listen(Some(authority.server(false)), |_| (200, String::new())).await;
    let server = format!("https://{address}");
    let ca = |pem: &str| format!("certificate-authority-data: {}", data(pem));
    // cluster, strict, whether it works
    let table = [
        (ca(&authority.pem), true, true),
        (ca(&authority.pem), false, true),
        (ca(&other.pem), true, false),
        // The system does not know it either.
        (ca(&other.pem), false, false),
        (String::new(), false, false),
        ("insecure-skip-tls-verify: true".into(), false, true),
    ];
    for (cluster, strict, good) in table {
        let result = start::client(&kubeconfig(&server, &cluster, "token: t"), strict, &this(&[])).await;
        match good {
            true => drop(result.unwrap()),
            false => assert!(matches!(result, Err(Error::Untrusted(_))), "{cluster}"),
        }
    }
    let result = start::client(&kubeconfig(&server, "", "token: t"), true, &this(&[])).await;
    assert!(matches!(result, Err(Error::NoAuthority)));
}

#[tokio::test]
async fn client_certificates_and_tokens() {
    let authority = Authority::new();
    let pair = authority.issue("client");
    let seen = Arc::new(Mutex::new(Vec::new()));
    let told = seen.clone();
    let address = listen(Some(authority.server(true)), move |request| {
        let header = request.headers()["authorization"].to_str().unwrap().to_owned();
        told.lock().unwrap().push((request.uri().to_string(), header));
        (200, String::new())
    })
    .await;
    let user = format!(
        "token: t, client-certificate-data: {}, client-key-data: {}",
        data(&pair.certificate),
        data(&pair.key)
    );
    let cluster = format!("certificate-authority-data: {}", data(&authority.pem));
    let config = kubeconfig(&format!("https://{address}/below/"), &cluster, &user);
    start::client(&config, true, &this(&[])).await.unwrap();
    assert_eq!(*seen.lock().unwrap(), [("/below/version".to_owned(), "Bearer t".to_owned())]);
}

/// A proxy that leads everything to one place; tells what it was asked for.
async fn proxy(to: std::net::SocketAddr, asked: Arc<Mutex<Vec<String>>>) -> std::net::SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (mut near, _) = listener.accept().await.unwrap();
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                head.push(near.read_u8().await.unwrap());
            }
            asked.lock().unwrap().push(String::from_utf8(head).unwrap());
            near.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n").await.unwrap();
            let mut far = TcpStream::connect(to).await.unwrap();
            tokio::spawn(async move { tokio::io::copy_bidirectional(&mut near, &mut far).await });
        }
    });
    address
}

#[tokio::test]
async fn through_a_proxy() {
    let authority = Authority::new();
    let address = listen(Some(authority.server(false)), |_| (200, String::new())).await;
    let asked = Arc::new(Mutex::new(Vec::new()));
    let proxy = proxy(address, asked.clone()).await;
    let cluster = format!("tls-server-name: 127.0.0.1, certificate-authority-data: {}", data(&authority.pem));
    let config = kubeconfig("https://rancher.example", &cluster, "token: t");
    let environment =
        [("HTTPS_PROXY", format!("http://user:pass@{proxy}")), ("NO_PROXY", "10.0.0.0/8".into())];
    start::client(&config, true, &this(&environment)).await.unwrap();
    let head = asked.lock().unwrap().pop().unwrap();
    assert!(head.starts_with("CONNECT rancher.example:443 HTTP/1.1\r\n"), "{head}");
    assert!(
        head.contains(&format!("Proxy-Authorization: Basic {}\r\n", STANDARD.encode("user:pass"))),
        "{head}"
    );
}
