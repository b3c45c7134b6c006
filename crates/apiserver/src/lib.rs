//! The embedded Kubernetes API server.
//!
//! It knows no kinds of ours: what it serves arrives as data.

mod admission;
pub mod audit;
pub mod auth;
pub mod backup;
pub mod controllers;
pub mod convert;
pub mod discovery;
mod document;
pub mod encryption;
pub mod files;
pub mod http;
pub mod instance;
pub mod openapi;
pub mod pki;
pub mod registry;
pub mod server;
pub mod store;
pub mod webhook;

pub use document::Document;
