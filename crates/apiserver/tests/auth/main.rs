//! Who may do what, from outside: users, tokens, certificates, reviews, and the files of the key infrastructure.

#![expect(clippy::unwrap_used, reason = "in a test the panic is the message")]

mod grants;
mod pki;
mod reviews;
mod revocation;
mod support;
mod tokens;
mod who_may;
