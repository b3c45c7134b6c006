//! The store, from outside: one suite for all backends, and what is the file's alone.

#![expect(clippy::unwrap_used, reason = "in a test the panic is the message")]

mod conformance;
mod crash;
mod file;
mod group_commit;
mod history;
#[cfg(all(target_os = "linux", target_env = "gnu"))]
mod power;
mod random;
mod sealed;
mod support;
mod watches;
