//! `rke.cattle.io`: Rancher's Cluster API providers for RKE2 and K3s.

pub mod v1;
