//! The HTTP face, from outside: tables of requests and answers, and the clients that people use.

#![expect(clippy::unwrap_used, reason = "in a test the panic is the message")]

mod answers;
mod audit;
mod bodies;
mod client;
mod disk;
mod fairness;
mod paths;
mod slow;
mod support;
mod tls;
mod watches;
