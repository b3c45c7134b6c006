//! Machines that register by their own hand: requests become Machines, and nodes that are gone for good take theirs
//! along.
//!
//! What is decided is in [`provisioning::custom`]; here it is gathered for and done.

mod context;
mod host;
mod request;

use std::sync::Arc;

use crate::Parts;
use context::Context;

pub use crate::error::Error;

/// Runs the controllers of requests and of CustomMachines until the future is dropped.
pub async fn run(parts: Parts) {
    let context = Context::new(parts);
    context.ready().await;
    context::connect(&context);
    tokio::join!(
        kit::runner::run(
            Arc::new(request::Requests(context.clone())),
            context.requests.clone(),
            kit::runner::AT_A_TIME
        ),
        kit::runner::run(
            Arc::new(host::Hosts(context.clone())),
            context.hosts.clone(),
            kit::runner::AT_A_TIME
        ),
    );
}
