//! `herdsman server` as its users meet it: on `herdsman apiserver`, and on a real Kubernetes.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod alone;
mod balancer;
mod core;
mod deploy;
mod management;
mod moving;
mod program;
mod replicas;
mod strangers;
mod upstream;
mod whole;
