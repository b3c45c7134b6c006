//! Telling the service manager that we are ready, if it wants to know.

use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};

/// Sends `READY=1` to `NOTIFY_SOCKET`. Nobody there is fine.
pub(crate) fn ready(environment: &[(String, String)]) {
    let Some((_, socket)) = environment.iter().rfind(|(name, _)| name == "NOTIFY_SOCKET") else { return };
    let address = match socket.strip_prefix('@') {
        Some(name) => SocketAddr::from_abstract_name(name),
        None => SocketAddr::from_pathname(socket),
    };
    let sent = address.and_then(|address| UnixDatagram::unbound()?.send_to_addr(b"READY=1", &address));
    if let Err(error) = sent {
        tracing::warn!(%error, "the service manager cannot be told");
    }
}
