//! `cluster.x-k8s.io`: Cluster API's core kinds.

pub mod v1beta1;
pub mod v1beta2;
