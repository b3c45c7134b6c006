//! Discovery and OpenAPI, from outside: tables, and a comparison with a real server.

#![expect(clippy::unwrap_used, reason = "in a test the panic is the message")]

mod aggregated;
mod legacy;
mod openapi;
mod support;
mod upstream;
