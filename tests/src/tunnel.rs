//! Both ends of tunnels as programs: ours, Go's (`peers/remotedialer`), and a plain websocket for each connection to measure
//! them by. All have the same command line and the same way in: see [`peer`].

pub mod bench;
pub mod peer;
pub mod places;
pub mod program;
mod raw;
pub mod tls;
