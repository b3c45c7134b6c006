//! Our tunnel with Go's, both ways round, as programs: HTTP, websockets inside, long transfers, many streams, abrupt ends,
//! servers that know each other.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clock::{Deadline, SystemClock};
use futures_util::{SinkExt as _, StreamExt as _};
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use suites::tunnel::places::{place, receive, send, visit};
use suites::tunnel::program::{Maker, Programs, Running, Server};
use suites::tunnel::tls::Files;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio_tungstenite::tungstenite::Message;

const KEY: &str = "c-m-interop";
/// Bytes of a long transfer: `HERDSMAN_TUNNEL_BYTES` sets it. The benchmark sends 1 GiB; a debug build takes its time.
const LONG: u64 = 48 << 20;
/// How long anything may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// Who serves and who connects.
const PAIRS: [(Maker, Maker); 3] =
    [(Maker::Go, Maker::Ours), (Maker::Ours, Maker::Go), (Maker::Ours, Maker::Ours)];

struct World {
    programs: Programs,
    tls: Files,
    place: SocketAddr,
    _scratch: TempDir,
}

impl World {
    async fn new() -> Result<Self> {
        let programs =
            tokio::task::spawn_blocking(|| Programs::new(env!("CARGO_BIN_EXE_tunnel-peer"))).await??;
        let scratch = tempfile::tempdir()?;
        Ok(World { programs, tls: Files::make(scratch.path())?, place: place().await?, _scratch: scratch })
    }

    fn server(&self, maker: Maker) -> Result<Server> {
        self.programs.server(maker, &self.tls, &[])
    }
}

/// Whether a place can be visited.
async fn works(server: &Server, key: &str, place: SocketAddr) -> Result<()> {
    let mut stream = visit(&server.forward, key, place, "echo").await?;
    stream.write_all(b"ping").await?;
    let mut answer = [0; 4];
    stream.read_exact(&mut answer).await?;
    ensure!(&answer == b"ping");
    Ok(())
}

/// Tries until it works.
async fn comes_to_work(server: &Server, key: &str, place: SocketAddr) -> Result<()> {
    let deadline = Deadline::after(&SystemClock, PATIENCE);
    loop {
        match works(server, key, place).await {
            Ok(()) => return Ok(()),
            Err(error) if deadline.passed(&SystemClock) => return Err(error),
            Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
        }
    }
}

/// What a server of ours says to a word.
async fn ask(server: &Server, word: &str) -> Result<String> {
    let mut stream = TcpStream::connect(&server.forward).await?;
    stream.write_all(format!("{word}\n").as_bytes()).await?;
    let mut text = String::new();
    stream.read_to_string(&mut text).await?;
    Ok(text)
}

/// Waits until a server of ours has no streams any more.
async fn no_streams(server: &Server) -> Result<()> {
    let deadline = Deadline::after(&SystemClock, PATIENCE);
    loop {
        let view: serde_json::Value = serde_json::from_str(&ask(server, "view").await?)?;
        let sessions = view.as_array().context("a list of sessions")?;
        let streams: usize =
            sessions.iter().filter_map(|session| Some(session["streams"].as_array()?.len())).sum();
        if streams == 0 {
            return Ok(());
        }
        ensure!(!deadline.passed(&SystemClock), "streams stay: {view}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// An HTTP server that says what it was sent; over a websocket too, as `kubectl exec` would have it.
async fn http_place() -> Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let service = service_fn(answer);
            let http = hyper::server::conn::http1::Builder::new();
            tokio::spawn(http.serve_connection(TokioIo::new(stream), service).with_upgrades());
        }
    });
    Ok(address)
}

async fn answer(mut request: Request<Incoming>) -> Result<Response<Full<bytes::Bytes>>> {
    let Some(accepted) = tunnel::websocket::accept(&request) else {
        let path = request.uri().path().to_owned();
        let body = request.into_body().collect().await?.to_bytes();
        return Ok(Response::new(Full::from([path.as_bytes(), b" ", &body].concat())));
    };
    let upgrade = hyper::upgrade::on(&mut request);
    tokio::spawn(async move {
        let mut socket = tunnel::websocket::serve(TokioIo::new(upgrade.await?)).await;
        while let Some(message) = socket.next().await {
            match message? {
                Message::Binary(bytes) => {
                    socket.send(Message::Binary([b"out:", &bytes[..]].concat().into())).await?
                }
                Message::Close(_) => break,
                _ => {}
            }
        }
        anyhow::Ok(())
    });
    Ok(accepted.map(|()| Full::default()))
}

async fn http(server: &Server, place: SocketAddr) -> Result<()> {
    let mut stream = TcpStream::connect(&server.forward).await?;
    stream.write_all(format!("{KEY} {place}\n").as_bytes()).await?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    for turn in 0..20 {
        let body = "x".repeat(turn * 1000);
        let request = Request::post(format!("/turn/{turn}"))
            .header("host", "x")
            .body(Full::<bytes::Bytes>::from(body.clone()))?;
        sender.ready().await?;
        let answer = sender.send_request(request).await?.into_body().collect().await?.to_bytes();
        ensure!(answer == format!("/turn/{turn} {body}"), "{answer:?}");
    }
    Ok(())
}

async fn websocket(server: &Server, place: SocketAddr) -> Result<()> {
    let mut stream = TcpStream::connect(&server.forward).await?;
    stream.write_all(format!("{KEY} {place}\n").as_bytes()).await?;
    let (mut socket, _) = tokio_tungstenite::client_async(format!("ws://{place}/exec"), stream).await?;
    for turn in 0..50u8 {
        socket.send(Message::Binary(vec![turn; usize::from(turn) * 100].into())).await?;
        let answer = socket.next().await.context("an answer")??.into_data();
        ensure!(answer[..4] == *b"out:" && answer[4..] == vec![turn; usize::from(turn) * 100]);
    }
    Ok(socket.close(None).await?)
}

async fn transfers(server: &Server, place: SocketAddr) -> Result<()> {
    let bytes =
        std::env::var("HERDSMAN_TUNNEL_BYTES").ok().and_then(|text| text.parse().ok()).unwrap_or(LONG);
    receive(&mut visit(&server.forward, KEY, place, &format!("source {bytes}")).await?, bytes).await?;
    let mut upload = visit(&server.forward, KEY, place, &format!("sink {bytes}")).await?;
    send(&mut upload, bytes).await?;
    ensure!(upload.read_u8().await? == b'y');
    Ok(())
}

/// A thousand streams at once, all open before the first is used.
async fn many_streams(server: &Server, place: SocketAddr) -> Result<()> {
    let mut streams = JoinSet::new();
    // So many are opened at once: listeners have only so much room for those that knock.
    let knocking = Arc::new(Semaphore::new(100));
    for index in 0..1000u32 {
        let (forward, knocking) = (server.forward.clone(), knocking.clone());
        streams.spawn(async move {
            let _permit = knocking.acquire().await?;
            let mut stream = visit(&forward, KEY, place, "echo").await?;
            stream.write_u32(index).await?;
            ensure!(stream.read_u32().await? == index);
            anyhow::Ok((index, stream))
        });
    }
    let mut open = Vec::new();
    while let Some(stream) = streams.join_next().await {
        open.push(stream??);
    }
    for (index, stream) in &mut open {
        stream.write_u32(*index + 1).await?;
        ensure!(stream.read_u32().await? == *index + 1);
    }
    Ok(())
}

/// One reader that stalls, and others that do not.
async fn stalled_reader(server: &Server, place: SocketAddr) -> Result<()> {
    let stalled = visit(&server.forward, KEY, place, "source 100000000").await?;
    for _ in 0..3 {
        receive(&mut visit(&server.forward, KEY, place, "source 3000000").await?, 3_000_000).await?;
    }
    drop(stalled);
    Ok(())
}

async fn together(server: Maker, client: Maker) -> Result<()> {
    let world = World::new().await?;
    let server_program = world.server(server)?;
    let _client = world.programs.client(client, &server_program, KEY)?;
    comes_to_work(&server_program, KEY, world.place).await?;
    let web = http_place().await?;
    http(&server_program, web).await.context("HTTP")?;
    websocket(&server_program, web).await.context("a websocket")?;
    transfers(&server_program, world.place).await.context("long transfers")?;
    many_streams(&server_program, world.place).await.context("a thousand streams")?;
    stalled_reader(&server_program, world.place).await.context("a stalled reader")?;
    if server == Maker::Ours {
        no_streams(&server_program).await?;
        let metrics = ask(&server_program, "metrics").await?;
        ensure!(metrics.contains("\nherdsman_tunnel_sessions 1\n"), "{metrics}");
    }
    Ok(())
}

/// A stream whose tunnel is gone ends.
async fn ends(mut stream: TcpStream) -> Result<()> {
    let mut rest = Vec::new();
    // With an error or without: of a program that died nobody can tell.
    let _ =
        tokio::time::timeout(PATIENCE, stream.read_to_end(&mut rest)).await.context("the stream hangs")?;
    Ok(())
}

async fn abrupt_ends(server: Maker, client: Maker) -> Result<()> {
    let world = World::new().await?;
    let mut server_program = world.server(server)?;
    let mut client_program: Running = world.programs.client(client, &server_program, KEY)?;
    comes_to_work(&server_program, KEY, world.place).await?;

    // The client dies in the middle of a transfer, and comes back.
    let mut long = visit(&server_program.forward, KEY, world.place, "source 100000000000").await?;
    long.read_exact(&mut [0; 100_000]).await?;
    let idle = visit(&server_program.forward, KEY, world.place, "hold").await?;
    client_program.kill();
    ends(long).await.context("a transfer without its client")?;
    ends(idle).await.context("an idle stream without its client")?;
    client_program = world.programs.client(client, &server_program, KEY)?;
    comes_to_work(&server_program, KEY, world.place).await.context("after the client came back")?;

    // What is dialled dies: one stream's end, not the session's.
    let held = visit(&server_program.forward, KEY, world.place, "hold").await?;
    let nobody: SocketAddr = "127.0.0.1:1".parse()?;
    ends(visit(&server_program.forward, KEY, nobody, "echo").await?).await.context("nobody there")?;
    works(&server_program, KEY, world.place).await?;

    // The visitor dies in the middle of a transfer.
    let mut left = visit(&server_program.forward, KEY, world.place, "source 100000000000").await?;
    left.read_exact(&mut [0; 100_000]).await?;
    drop((left, held));
    works(&server_program, KEY, world.place).await?;
    if server == Maker::Ours {
        no_streams(&server_program).await.context("after the visitor left")?;
    }

    // The server dies; another one takes its place, and the client finds it.
    drop(server_program.running);
    drop(client_program);
    server_program = world.server(server)?;
    let _client = world.programs.client(client, &server_program, KEY)?;
    comes_to_work(&server_program, KEY, world.place).await.context("with another server")
}

fn run(test: impl Future<Output = Result<()>>) {
    if peers::skip("tunnel") {
        return;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    if let Err(error) = runtime.block_on(test) {
        panic!("{error:?}");
    }
    runtime.shutdown_background();
}

#[test]
#[ignore = "peers: remotedialer"]
fn a_go_server_with_our_client() {
    run(together(PAIRS[0].0, PAIRS[0].1));
}

#[test]
#[ignore = "peers: remotedialer"]
fn our_server_with_a_go_client() {
    run(together(PAIRS[1].0, PAIRS[1].1));
}

#[test]
#[ignore = "peers: remotedialer"]
fn our_server_with_our_client() {
    run(together(PAIRS[2].0, PAIRS[2].1));
}

#[test]
#[ignore = "peers: remotedialer"]
fn abrupt_ends_of_everything() {
    run(async {
        for (server, client) in PAIRS {
            abrupt_ends(server, client).await.with_context(|| format!("{server:?} and {client:?}"))?;
        }
        Ok(())
    });
}

/// Two servers, each of its kind; a client of the one is reached through the other.
#[test]
#[ignore = "peers: remotedialer"]
fn servers_that_know_each_other() {
    run(async {
        let world = World::new().await?;
        for (front, back) in [(Maker::Go, Maker::Ours), (Maker::Ours, Maker::Go), (Maker::Ours, Maker::Ours)]
        {
            // The one behind dials the one in front and says whose sessions it has.
            let in_front = world.programs.server(
                front,
                &world.tls,
                &["-peer-id", "front", "-peer-token", "f", "-peer", "wss://127.0.0.1:1/connect,back,b"],
            )?;
            let peer = format!("{},front,f", in_front.url());
            let behind = world.programs.server(
                back,
                &world.tls,
                &["-peer-id", "back", "-peer-token", "b", "-peer", &peer],
            )?;
            let _client = world.programs.client(Maker::Ours, &behind, KEY)?;
            comes_to_work(&in_front, KEY, world.place)
                .await
                .with_context(|| format!("{front:?} before {back:?}"))?;
            receive(&mut visit(&in_front.forward, KEY, world.place, "source 3000000").await?, 3_000_000)
                .await?;
        }
        Ok(())
    });
}
