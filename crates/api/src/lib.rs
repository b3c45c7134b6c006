//! Every Kubernetes kind that Herdsman serves, reads or writes, with the names and labels that tie them together.
//!
//! No IO and no async. One module per API group, one submodule per version:
//!
//! | module | group |
//! |---|---|
//! | [`capi`] | `cluster.x-k8s.io` |
//! | [`clusterctl`] | `clusterctl.cluster.x-k8s.io` |
//! | [`ipam`] | `ipam.cluster.x-k8s.io` |
//! | [`provisioning`] | `provisioning.cattle.io` |
//! | [`rke`] | `rke.cattle.io` |
//! | [`machine`] | `rke-machine.cattle.io`, `rke-machine-config.cattle.io` |
//! | [`plans`] | `plan.cattle.io` |
//! | [`operation`] | `operation.cattle.io` |
//! | [`management`] | `management.cattle.io` |
//! | [`downstream`] | groups of the downstream clusters |
//!
//! Around them: [`catalogue`] spells every label, annotation and key, [`names`] makes the names of objects, [`crd`]
//! turns the types into CustomResourceDefinitions, [`conversion`] goes between API versions, [`contract`] finds the
//! version of a provider's kind, [`overlay`] carries
//! changes onto documents whose every field we do not know.

#[macro_use]
mod kind;
#[macro_use]
mod open_enum;

pub mod capi;
pub mod catalogue;
pub mod clusterctl;
mod condition;
pub mod contract;
pub mod conversion;
pub mod crd;
pub mod downstream;
mod duration;
pub mod ipam;
pub mod machine;
pub mod management;
pub mod names;
pub mod operation;
pub mod overlay;
pub mod plans;
pub mod provisioning;
pub mod rke;
mod schema;
mod wire;

pub use condition::GenericCondition;
pub use duration::GoDuration;
pub use kind::{Kind, Scope};
pub use wire::Tracked;
