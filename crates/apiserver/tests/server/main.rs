//! The request core, from outside: tables of requests and answers.

#![expect(clippy::unwrap_used, reason = "in a test the panic is the message")]

mod admission;
mod apply;
mod asked;
mod builtin;
mod conversion;
mod custom;
mod events;
mod hook;
mod lists;
mod pods;
mod policies;
mod recorded;
mod reflectors;
mod refusals;
mod support;
mod watches;
mod webhooks;
