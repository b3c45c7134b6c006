//! What a tunnel is measured by: a TLS websocket for each connection, opened by the side that a tunnel's client is, with
//! nothing in it but the connection's bytes.

use anyhow::{Context as _, Result};
use bytes::{Bytes, BytesMut};
use clock::SystemEntropy;
use futures_util::{SinkExt as _, StreamExt as _};
use http::{HeaderMap, Uri};
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tunnel::client::Transport as _;
use tunnel::serve::Io;
use tunnel::websocket;

use super::peer::{Dialled, Options, first_line, listen, secure};

/// Websockets that wait for a connection.
const SPARE: usize = 32;

type Socket = WebSocketStream<Box<dyn Io>>;

pub(super) async fn server(options: &Options) -> Result<()> {
    let tls = options.tls()?;
    let (connect, forward) = listen().await?;
    let (spare, taken) = mpsc::channel::<Socket>(SPARE);
    tokio::spawn(serve_forward(forward, taken));
    loop {
        let (stream, _) = connect.accept().await?;
        let (tls, spare) = (tls.clone(), spare.clone());
        tokio::spawn(async move {
            let stream = secure(stream, tls).await?;
            let socket =
                tokio_tungstenite::accept_async_with_config(stream, Some(websocket::config())).await?;
            spare.send(socket).await.ok().context("nobody waits")
        });
    }
}

async fn serve_forward(forward: TcpListener, mut spare: mpsc::Receiver<Socket>) -> Result<()> {
    loop {
        let (stream, _) = forward.accept().await?;
        let mut socket = spare.recv().await.context("no more websockets")?;
        tokio::spawn(async move {
            let (line, stream) = first_line(stream).await?;
            let address = line.split(' ').nth(1).context("<client key> <address>")?.to_owned();
            socket.send(Message::text(address)).await?;
            carry(socket, stream).await
        });
    }
}

pub(super) async fn client(options: &Options) -> Result<()> {
    let url: Uri = options.must("url")?.parse()?;
    let dialled = Arc::new(Dialled::to(&url)?);
    let (used, mut ended) = mpsc::channel::<()>(SPARE);
    for _ in 0..SPARE {
        used.send(()).await?;
    }
    println!("ready connected");
    while ended.recv().await.is_some() {
        let (dialled, url, used) = (dialled.clone(), url.clone(), used.clone());
        tokio::spawn(async move {
            let io = dialled.connect().await?;
            let mut socket = websocket::connect(io, &url, &HeaderMap::new(), &mut SystemEntropy).await?;
            let address = socket.next().await.context("no address")??.into_text()?;
            // Another one takes its place.
            used.send(()).await?;
            let stream = TcpStream::connect(address.as_str()).await?;
            stream.set_nodelay(true)?;
            carry(socket, stream).await
        });
    }
    Ok(())
}

/// Carries bytes until one way ends.
async fn carry(
    socket: Socket,
    stream: impl AsyncRead + tokio::io::AsyncWrite + Send + 'static,
) -> Result<()> {
    let (mut to_socket, mut from_socket) = socket.split();
    let (mut from_stream, mut to_stream) = tokio::io::split(stream);
    let outward = async {
        loop {
            let mut buffer = BytesMut::with_capacity(32 << 10);
            if from_stream.read_buf(&mut buffer).await? == 0 {
                return to_socket.close().await.map_err(anyhow::Error::from);
            }
            to_socket.send(Message::Binary(buffer.freeze())).await?;
        }
    };
    let inward = async {
        while let Some(message) = from_socket.next().await {
            let Message::Binary(bytes) = message? else { continue };
            let bytes: Bytes = bytes;
            to_stream.write_all(&bytes).await?;
        }
        to_stream.shutdown().await.map_err(anyhow::Error::from)
    };
    tokio::select! {
        result = outward => result,
        result = inward => result,
    }
}
