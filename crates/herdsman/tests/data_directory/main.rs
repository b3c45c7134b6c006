//! Data directories in the hands of the real program: encryption, its keys, backups, what is refused.

#![expect(clippy::unwrap_used, reason = "in a test the panic is the message")]

mod audit;
mod backups;
mod confined;
mod keys;
mod program;
mod refusals;
mod upgrade;
