//! How a TCP connection that carries a session should be set up.

use std::io;

use tokio::net::TcpStream;

/// Sets up a connection for a session: small messages leave at once.
///
/// # Errors
/// If the operating system refuses.
pub fn tune(stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)
}
