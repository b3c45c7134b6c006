//! The controllers, from outside: what the server does after requests, on one thread and with time that is moved.

#![expect(clippy::unwrap_used, reason = "in a test the panic is the message")]

mod accounts;
mod determinism;
mod first;
mod garbage;
mod garbage_random;
mod namespaces;
mod robustness;
mod roles;
mod support;
mod upkeep;
