//! Ways out of the simulated network.

use std::io;

use agent::connect::Stream;
use agent::machine::Later;
use tokio::net::TcpStream;

/// A stream that is being opened.
pub type Dialled<'a> = Later<'a, io::Result<Box<dyn Stream>>>;

/// The way from machines to servers that are not simulated: plain byte streams, TLS is spoken over them.
pub trait Uplink: Send + Sync {
    /// A stream to a host and port.
    fn dial<'a>(&'a self, host: &'a str, port: u16) -> Dialled<'a>;
}

/// The network that this process is in.
#[derive(Clone, Copy, Debug, Default)]
pub struct Internet;

impl Uplink for Internet {
    fn dial<'a>(&'a self, host: &'a str, port: u16) -> Dialled<'a> {
        Box::pin(async move {
            let stream = TcpStream::connect((host.trim_matches(['[', ']']), port)).await?;
            stream.set_nodelay(true)?;
            Ok(Box::new(stream) as Box<dyn Stream>)
        })
    }
}
