//! `management.cattle.io`: what the provisioning flows need of Rancher's management plane.
//!
//! Only the fields that Herdsman reads or writes are typed; the definitions keep every other field.

mod owner;
pub mod v3;

pub use owner::{Owner, SET};
