//! The reverse tunnel: clusters that take no connections dial out, and are reached through that one connection.
//!
//! The protocol is Rancher's remotedialer, to the byte, both ends: many streams over one websocket. `docs/tunnel.md` has
//! the protocol, its bounds, and what we do otherwise than the Go implementation.
//!
//! | module | what |
//! |---|---|
//! | [`message`] | what travels; no IO |
//! | [`mux`] | what every message means, what goes next; no IO |
//! | [`session`], [`stream`] | a websocket and its streams |
//! | [`serve`] | streams that the other side wants: who may dial what, and carrying the bytes |
//! | [`client`] | the side that connects |
//! | [`hub`] | the side that is connected to: sessions by client, peers, metrics, what is going on |
//! | [`connector`] | for HTTP clients such as `kube::Client` |

pub mod client;
pub mod connector;
pub mod hub;
pub mod message;
pub mod mux;
mod names;
pub mod serve;
pub mod session;
mod shared;
pub mod socket;

pub mod stream;
mod varint;
pub mod websocket;

pub use connector::Connector;
pub use hub::Hub;
pub use names::{ClientKey, InvalidName, SessionKey, StreamId, Target};
pub use session::Session;
pub use stream::TunnelStream;
