//! The request core, from outside: tables of requests and answers.

#![expect(clippy::unwrap_used, reason = "in a test the panic is the message")]

mod builtin;
mod custom;
mod lists;
mod support;
mod watches;
