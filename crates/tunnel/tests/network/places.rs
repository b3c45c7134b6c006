//! What can be dialled behind the client.

use std::io;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};
use tunnel::Target;
use tunnel::serve::{Dial, Io, Later};

/// The byte at a place of a stream.
pub(crate) fn byte(stream: u64, at: u64) -> u8 {
    (stream.wrapping_mul(31).wrapping_add(at.wrapping_mul(7)).wrapping_add(at >> 8)) as u8
}

/// Places by address: `echo`, `source:<stream>:<length>`, `stuck` (takes a little, then reads no more), `refuse`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Places;

impl Dial for Places {
    fn dial(&self, target: Target) -> Later<'static, io::Result<Box<dyn Io>>> {
        let (here, there) = tokio::io::duplex(8 << 10);
        let mut words = target.address.split(':').map(str::to_owned).collect::<Vec<_>>().into_iter();
        let place = words.next().unwrap_or_default();
        let numbers: Vec<u64> = words.filter_map(|word| word.parse().ok()).collect();
        Box::pin(async move {
            match (place.as_str(), &numbers[..]) {
                ("echo", _) => drop(tokio::spawn(echo(there))),
                ("source", &[stream, length]) => drop(tokio::spawn(source(there, stream, length))),
                ("stuck", _) => drop(tokio::spawn(stuck(there))),
                _ => return Err(io::ErrorKind::ConnectionRefused.into()),
            }
            Ok(Box::new(here) as Box<dyn Io>)
        })
    }
}

async fn echo(io: DuplexStream) {
    let (mut from, mut to) = tokio::io::split(io);
    let _ = tokio::io::copy(&mut from, &mut to).await;
    let _ = to.shutdown().await;
}

async fn source(mut io: DuplexStream, stream: u64, length: u64) {
    let mut at = 0;
    while at < length {
        let piece: Vec<u8> = (at..length.min(at + 5000)).map(|at| byte(stream, at)).collect();
        if io.write_all(&piece).await.is_err() {
            return;
        }
        at += piece.len() as u64;
    }
    let _ = io.shutdown().await;
    // Whoever asked may still have something to say.
    let _ = io.read_to_end(&mut Vec::new()).await;
}

async fn stuck(mut io: DuplexStream) {
    let _ = io.read_exact(&mut [0; 10]).await;
    std::future::pending::<()>().await;
}
