//! `cluster.x-k8s.io`: Cluster API's own kinds.

pub mod v1beta1;
