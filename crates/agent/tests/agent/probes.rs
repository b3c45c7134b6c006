//! Probes over real sockets.

use std::path::Path;

use agent::machine::{Prober as _, Root};
use agent::probes::HttpProber;
use plan::document::{HttpGet, Probe};

use crate::support::{Authority, listen};

fn probe(http_get: HttpGet) -> Probe {
    Probe { http_get, timeout_seconds: 20, ..Probe::default() }
}

async fn ask(root: &Path, http_get: HttpGet) -> Result<(), String> {
    HttpProber::new(Root::at(root)).ask(&probe(http_get)).await
}

#[tokio::test]
async fn answers() {
    let other = listen(None, |_| (200, String::new())).await;
    let address = listen(None, move |request| {
        assert!(request.headers()["user-agent"].to_str().unwrap().starts_with("kube-probe/"));
        match request.uri().path() {
            "/ok" => (204, String::new()),
            "/there" => (302, "/ok".into()),
            "/near/there" => (307, "../ok?x=1".into()),
            "/round" => (302, "/round".into()),
            "/away" => (302, format!("http://localhost:{}/", other.port())),
            _ => (500, String::new()),
        }
    })
    .await;
    let root = tempfile::tempdir().unwrap();
    for (path, good) in
        [("/ok", true), ("/there", true), ("/round", false), ("/away", false), ("/broken", false)]
    {
        let url = format!("http://{address}{path}");
        let answer = ask(root.path(), HttpGet { url, ..HttpGet::default() }).await;
        assert_eq!(answer.is_ok(), good, "{path}: {answer:?}");
    }
    for url in ["", "no url", "ftp://x", "http://127.0.0.1:1/"] {
        assert!(
            ask(root.path(), HttpGet { url: url.into(), ..HttpGet::default() }).await.is_err(),
            "{url:?}"
        );
    }
}

#[tokio::test]
async fn certificates() {
    let (authority, other) = (Authority::new(), Authority::new());
    let root = tempfile::tempdir().unwrap();
    let pair = authority.issue("client");
    for (name, text) in [
        ("ca.pem", &authority.pem),
        ("other.pem", &other.pem),
        ("cert.pem", &pair.certificate),
        ("key.pem", &pair.key),
    ] {
        std::fs::write(root.path().join(name), text).unwrap();
    }
    let open = listen(Some(authority.server(false)), |_| (200, String::new())).await;
    let strict = listen(Some(authority.server(true)), |_| (200, String::new())).await;
    let get = |address, ca_cert: &str, client: bool, insecure| HttpGet {
        url: format!("https://{address}/"),
        ca_cert: ca_cert.into(),
        client_cert: if client { "/cert.pem".into() } else { String::new() },
        client_key: if client { "/key.pem".into() } else { String::new() },
        insecure,
        ..HttpGet::default()
    };
    let table = [
        (get(open, "/ca.pem", false, false), true, "its authority"),
        (get(open, "/other.pem", false, false), false, "another authority"),
        (get(open, "", false, false), false, "the system does not know it"),
        (get(open, "/none.pem", false, false), false, "no such file"),
        (get(open, "", false, true), true, "whoever answers"),
        (get(strict, "/ca.pem", true, false), true, "with a certificate"),
        (get(strict, "/ca.pem", false, false), false, "without one"),
        (get(strict, "", true, true), false, "none is shown to who is not checked"),
    ];
    let prober = HttpProber::new(Root::at(root.path()));
    for (get, good, why) in table {
        let answer = prober.ask(&probe(get)).await;
        assert_eq!(answer.is_ok(), good, "{why}: {answer:?}");
    }
    // A file that comes later is seen.
    let get = get(open, "/none.pem", false, false);
    std::fs::write(root.path().join("none.pem"), &authority.pem).unwrap();
    assert_eq!(prober.ask(&probe(get)).await, Ok(()));
}

#[tokio::test(start_paused = true)]
async fn a_server_that_says_nothing_is_ill() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let silent = Probe { http_get: HttpGet { url, ..HttpGet::default() }, ..Probe::default() };
    let root = tempfile::tempdir().unwrap();
    let answer = HttpProber::new(Root::at(root.path())).ask(&silent).await;
    assert_eq!(answer, Err("no answer within 1 s".to_owned()), "although the plan names no time");
}
