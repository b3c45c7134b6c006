//! What is dialled behind a tunnel, over TCP on this machine.

use std::net::SocketAddr;

use anyhow::{Context, Result, ensure};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};

/// What a long stream consists of, again and again.
pub fn pattern() -> Vec<u8> {
    // As long as no buffer: what is lost, doubled or swapped does not fit.
    (0..1_000_003u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8).collect()
}

/// A place that does what the first line of a connection says: `echo`, `source <bytes>`, `sink <bytes>` (and then says `y`), `hold`
/// (says nothing).
pub async fn place() -> Result<SocketAddr> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve(stream));
        }
    });
    Ok(address)
}

async fn serve(stream: TcpStream) -> Result<()> {
    stream.set_nodelay(true)?;
    let mut stream = BufReader::with_capacity(64 << 10, stream);
    let mut line = String::new();
    stream.read_line(&mut line).await?;
    let mut words = line.split_whitespace();
    let word = words.next().unwrap_or_default().to_owned();
    let number = words.next().and_then(|word| word.parse::<u64>().ok());
    match (word.as_str(), number) {
        ("echo", _) => echo(stream).await,
        ("source", Some(length)) => send(&mut stream, length).await,
        ("sink", Some(length)) => {
            receive(&mut stream, length).await?;
            Ok(stream.write_all(b"y").await?)
        }
        // Says nothing, and goes when the visitor does.
        _ => tokio::io::copy(&mut stream, &mut tokio::io::sink()).await.map(drop).map_err(Into::into),
    }
}

async fn echo(mut stream: BufReader<TcpStream>) -> Result<()> {
    loop {
        let bytes = stream.fill_buf().await?;
        if bytes.is_empty() {
            return Ok(());
        }
        let copy = bytes.to_vec();
        stream.consume(copy.len());
        stream.write_all(&copy).await?;
    }
}

/// Writes so many bytes of the pattern.
pub async fn send(to: &mut (impl tokio::io::AsyncWrite + Unpin), length: u64) -> Result<()> {
    let pattern = pattern();
    let mut left = length;
    while left > 0 {
        let piece = usize::try_from(left).unwrap_or(usize::MAX).min(pattern.len());
        to.write_all(&pattern[..piece]).await?;
        left -= piece as u64;
    }
    Ok(())
}

/// Reads so many bytes, which must be the pattern's.
pub async fn receive(from: &mut (impl tokio::io::AsyncRead + Unpin), length: u64) -> Result<()> {
    let pattern = pattern();
    let mut buffer = vec![0; 256 << 10];
    let (mut at, mut left) = (0, length);
    while left > 0 {
        let most = usize::try_from(left).unwrap_or(usize::MAX).min(buffer.len()).min(pattern.len() - at);
        let read = from.read(&mut buffer[..most]).await?;
        ensure!(read > 0, "the stream ended {left} bytes early");
        ensure!(buffer[..read] == pattern[at..at + read], "other bytes than were sent");
        at = (at + read) % pattern.len();
        left -= read as u64;
    }
    Ok(())
}

/// A connection through a tunnel to a place, which is told what to do.
pub async fn visit(forward: &str, key: &str, place: SocketAddr, word: &str) -> Result<TcpStream> {
    let mut stream = TcpStream::connect(forward).await.context("the forward address")?;
    stream.set_nodelay(true)?;
    stream.write_all(format!("{key} {place}\n{word}\n").as_bytes()).await?;
    Ok(stream)
}
