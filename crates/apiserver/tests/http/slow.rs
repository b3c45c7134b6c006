//! Clients that do not read, do not write, do not end, or are too many.

use std::time::Duration;

use apiserver::http::{Api, Certificates, Settings, listen, serve};
use apiserver::store::Options;
use http::Response;
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::net::{TcpListener, TcpStream};

use crate::support::{api, api_of, ask, grant_everything, ok, request_of};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const WRITES: usize = 400;

/// A connection to a server, and whether the server still serves it.
fn connect(api: &Api) -> (DuplexStream, tokio::task::JoinHandle<()>) {
    let (near, far) = tokio::io::duplex(64 * 1024);
    (near, tokio::spawn(serve(api.clone(), far, Certificates::default())))
}

async fn two(api: &Api) -> http2::SendRequest<Full<Bytes>> {
    let (near, _) = connect(api);
    let mut builder = http2::Builder::new(TokioExecutor::new());
    builder.initial_stream_window_size(64 * 1024);
    let (sender, connection) = builder.handshake(TokioIo::new(near)).await.unwrap();
    tokio::spawn(connection);
    sender
}

async fn watch(sender: &mut http2::SendRequest<Full<Bytes>>, url: &str) -> Incoming {
    let answer: Response<Incoming> = sender.send_request(request_of("ann", "GET", url, "")).await.unwrap();
    assert_eq!(answer.status(), 200);
    answer.into_body()
}

async fn counted(api: &Api, name: &str) -> usize {
    let text = ask(api, "GET", "/metrics", &[], "").await.text();
    let line = text.lines().find_map(|line| line.strip_prefix(&format!("herdsman_apiserver_{name} ")));
    line.unwrap_or_else(|| panic!("{name} in {text}")).parse().unwrap()
}

/// Ten KB each: far more than all buffers between a server and a client hold.
async fn write_maps(api: &Api) {
    for number in 0..WRITES {
        let map = json!({"metadata": {"name": format!("m{number}")}, "data": {"k": "x".repeat(10_000)}});
        ok(api, "POST", MAPS, &map).await;
    }
}

fn watch_url(api: &Api) -> String {
    format!("{MAPS}?watch=1&resourceVersion={}", api.server().store().view().head())
}

/// Reads a watch until it has told so many events.
async fn events(body: &mut Incoming, wanted: usize) {
    let mut seen = 0;
    while seen < wanted {
        let frame = body.frame().await.expect("the watch goes on").unwrap();
        seen += frame.into_data().unwrap().iter().filter(|byte| **byte == b'\n').count();
    }
    assert_eq!(seen, wanted);
}

fn few_waiting() -> Options {
    Options { watch_buffer: 8, ..Options::default() }
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_is_not_read_is_reset_and_its_neighbours_go_on() {
    let api = api_of(few_waiting(), Settings::default(), |server| server).await;
    grant_everything(&api).await;
    let url = watch_url(&api);
    let mut sender = two(&api).await;
    let mut stuck = watch(&mut sender, &url).await;
    // On the same connection, and on another one.
    let (mut neighbour, mut other) =
        (watch(&mut sender, &url).await, watch(&mut two(&api).await, &url).await);
    let reading = tokio::spawn(async move {
        events(&mut neighbour, WRITES).await;
        events(&mut other, WRITES).await;
        (neighbour, other)
    });
    write_maps(&api).await;
    let (_neighbour, _other) = reading.await.unwrap();
    // What the stuck one was given is what buffers hold; the rest stays in the log.
    let given = counted(&api, "watch_events_total").await - 2 * WRITES;
    assert!(given < 100, "{given} events are held for a client that does not read");
    assert_eq!(counted(&api, "watches").await, 3);
    tokio::time::sleep(Duration::from_secs(130)).await;
    assert_eq!(counted(&api, "watches").await, 2);
    let end = loop {
        match stuck.frame().await.expect("the stream is reset, not ended") {
            Ok(_) => {}
            Err(error) => break error,
        }
    };
    assert!(!end.is_timeout(), "{end}");
    assert!(sender.send_request(request_of("ann", "GET", MAPS, "")).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_is_not_read_is_cut() {
    let api = api_of(few_waiting(), Settings::default(), |server| server).await;
    grant_everything(&api).await;
    let (mut near, served) = connect(&api);
    let request = format!("GET {} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ann\r\n\r\n", watch_url(&api));
    near.write_all(request.as_bytes()).await.unwrap();
    near.read_exact(&mut [0; 16]).await.unwrap();
    write_maps(&api).await;
    assert_eq!(counted(&api, "watches").await, 1);
    tokio::time::timeout(Duration::from_secs(61), served).await.unwrap().unwrap();
    assert_eq!(counted(&api, "watches").await, 0);
}

#[tokio::test(start_paused = true)]
async fn what_trickles_or_never_comes_times_out() {
    let api = api().await;
    grant_everything(&api).await;
    let post: &'static str = "POST /api/v1/namespaces/default/configmaps HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ann\r\ncontent-type: application/json\r\ncontent-length: 1000\r\n\r\n";
    let hello = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";
    for (begin, trickle, said) in [
        (&b""[..], &b""[..], ""),
        (b"GET /livez HTTP/1.1\r\n", b"a: b\r\n", ""),
        (b"PRI * HTTP/2.0\r\n", b"", ""),
        (hello, b"", "*"),
        (post.as_bytes(), b" ", "HTTP/1.1 504 Gateway Timeout"),
    ] {
        let (near, served) = connect(&api);
        let (mut read, mut write) = tokio::io::split(near);
        let trickling = tokio::spawn(async move {
            write.write_all(begin).await.unwrap();
            loop {
                tokio::time::sleep(Duration::from_secs(7)).await;
                if write.write_all(trickle).await.is_err() {
                    return;
                }
            }
        });
        let mut answer = Vec::new();
        let reading = async {
            read.read_to_end(&mut answer).await.unwrap();
            served.await.unwrap();
        };
        let within = Duration::from_secs(200);
        tokio::time::timeout(within, reading).await.expect("the connection ends");
        trickling.abort();
        let answer = String::from_utf8_lossy(&answer);
        assert!(said == "*" || answer.lines().next().unwrap_or_default() == said, "{answer}");
    }
}

#[tokio::test]
async fn heads_have_limits() {
    let api = api().await;
    grant_everything(&api).await;
    let long = format!("{MAPS}?labelSelector={}", "a".repeat(40_000));
    assert_eq!(ask(&api, "GET", &long, &[], "").await.code, 414);
    for (head, code) in [
        ("a: b\r\n".repeat(150), "431"),
        (format!("a: {}\r\n", "b".repeat(100_000)), "431"),
        (format!("a: {}\r\n", "b".repeat(30_000)), "200"),
    ] {
        let (mut near, _) = connect(&api);
        let request = format!("GET /livez HTTP/1.1\r\nhost: x\r\nconnection: close\r\n{head}\r\n");
        // The server may hang up before it has all.
        let _ = near.write_all(request.as_bytes()).await;
        let mut answer = String::new();
        let _ = near.read_to_string(&mut answer).await;
        assert_eq!(answer.split(' ').nth(1), Some(code), "{answer}");
    }
    let mut sender = two(&api).await;
    let request = request_of(&"x".repeat(100_000), "GET", "/livez", "");
    let code = sender.send_request(request).await.map(|answer| answer.status().as_u16());
    assert!(code.as_ref().is_ok_and(|code| *code == 431) || code.is_err(), "{code:?}");
}

#[tokio::test]
async fn bodies_that_say_that_they_are_huge_are_not_waited_for() {
    let api = api().await;
    grant_everything(&api).await;
    let (mut near, _) = connect(&api);
    let head = format!(
        "POST {MAPS} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ann\r\nconnection: close\r\ncontent-length: 4000000000\r\n\r\n"
    );
    near.write_all(head.as_bytes()).await.unwrap();
    let mut answer = String::new();
    near.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");
}

#[tokio::test]
async fn nobody_has_more_watches_than_granted() {
    let settings = Settings { watches: 3, watches_per_user: 2, ..Settings::default() };
    let api = api_of(Options::default(), settings, |server| server).await;
    grant_everything(&api).await;
    let url = format!("{MAPS}?watch=1");
    let mut open = Vec::new();
    for (user, code) in [("ann", 200), ("ann", 200), ("ann", 429), ("ben", 200), ("cid", 429)] {
        let answer = api.handle(request_of(user, "GET", &url, "")).await;
        assert_eq!(answer.status(), code, "{user}");
        match code {
            200 => open.push(answer),
            _ => {
                assert_eq!(answer.headers()["retry-after"], "1");
                let body = answer.into_body().collect().await.unwrap().to_bytes();
                let status: Value = serde_json::from_slice(&body).unwrap();
                assert_eq!(
                    (&status["reason"], &status["message"]),
                    (&json!("TooManyRequests"), &json!("Too many requests, please try again later."))
                );
            }
        }
    }
    // Clients in this process are not strangers.
    assert_eq!(api.handle(crate::support::request("GET", &url, &[], "")).await.status(), 200);
    open.clear();
    assert_eq!(api.handle(request_of("cid", "GET", &url, "")).await.status(), 200);
}

#[tokio::test]
async fn nobody_has_more_connections_than_granted() {
    let settings = Settings { connections_per_user: 2, ..Settings::default() };
    let api = api_of(Options::default(), settings, |server| server).await;
    grant_everything(&api).await;
    let mut open: Vec<_> = (0..4).map(|_| connect(&api)).collect();
    for (connection, user, path, code) in [
        (0, "ann", MAPS, "200"),
        (0, "ann", MAPS, "200"),
        (1, "ann", MAPS, "200"),
        (2, "ann", MAPS, "429"),
        // Others may ask over it, and how the server is may be asked by all.
        (2, "ben", MAPS, "200"),
        (2, "ann", "/livez", "200"),
    ] {
        assert_eq!(code_over(&mut open[connection].0, user, path).await, code, "{connection} {user} {path}");
    }
    // Whose end is noticed makes room.
    let (near, serving) = open.remove(0);
    drop(near);
    serving.await.unwrap();
    assert_eq!(code_over(&mut open[2].0, "ann", MAPS).await, "200");
}

/// The code of an answer over a connection that stays open.
async fn code_over(near: &mut DuplexStream, user: &str, path: &str) -> String {
    let head = format!("GET {path} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {user}\r\n\r\n");
    near.write_all(head.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    let length = loop {
        answer.push(near.read_u8().await.unwrap());
        if answer.ends_with(b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&answer).to_ascii_lowercase();
            let length = head.split("content-length: ").nth(1).and_then(|rest| rest.split("\r\n").next());
            break length.unwrap().parse().unwrap();
        }
    };
    near.read_exact(&mut vec![0; length]).await.unwrap();
    String::from_utf8_lossy(&answer[9..12]).into_owned()
}

#[tokio::test]
async fn an_address_has_no_more_connections_than_granted() {
    let settings = Settings { connections_per_address: 2, ..Settings::default() };
    let api = api_of(Options::default(), settings, |server| server).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let listening = tokio::spawn(listen(api.clone(), listener, None, Duration::from_secs(5)));
    let mut kept = Vec::new();
    let mut answer = String::new();
    for _ in 0..2 {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(b"GET /livez HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
        stream.read_exact(&mut [0; 15]).await.unwrap();
        kept.push(stream);
    }
    let mut third = TcpStream::connect(address).await.unwrap();
    let _ = third.write_all(b"GET /livez HTTP/1.1\r\nhost: x\r\n\r\n").await;
    let _ = third.read_to_string(&mut answer).await;
    assert_eq!((answer.as_str(), counted(&api, "refused_connections_total").await), ("", 1));
    api.close();
    listening.await.unwrap();
}
