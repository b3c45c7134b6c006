//! `provisioning.cattle.io`: the cluster as users ask for it.

pub mod v1;
