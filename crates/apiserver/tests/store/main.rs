//! The store, from outside: one suite for all backends, and what is the file's alone.

mod conformance;
mod crash;
mod file;
mod group_commit;
mod history;
mod random;
mod support;
mod watches;
