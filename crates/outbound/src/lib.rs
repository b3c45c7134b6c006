//! The way out of a machine, for whatever connects from there: which proxy leads to a server, and whom to trust over TLS.
//! No IO but that the system's authorities are read.

pub mod proxy;
pub mod tls;
