//! Every Kubernetes kind that Herdsman serves, reads or writes, with the names and labels that tie them together.
//!
//! No IO and no async. One module per API group, one submodule per version:
//!
//! | module | group |
//! |---|---|
//! | [`capi`] | `cluster.x-k8s.io` |
//! | [`clusterctl`] | `clusterctl.cluster.x-k8s.io` |
//! | [`ipam`] | `ipam.cluster.x-k8s.io` |
//! | [`rke`] | `rke.cattle.io` |
//!
//! Around them: [`crd`] turns the types into CustomResourceDefinitions, [`overlay`] carries changes onto documents
//! whose every field we do not know.

#[macro_use]
mod kind;

pub mod capi;
pub mod clusterctl;
pub mod conversion;
pub mod crd;
mod duration;
pub mod ipam;
pub mod overlay;
pub mod rke;
mod schema;
mod wire;

pub use duration::GoDuration;
pub use kind::{Kind, Scope};
pub use wire::Tracked;
