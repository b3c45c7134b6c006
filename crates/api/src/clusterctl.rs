//! `clusterctl.cluster.x-k8s.io`: the inventory that clusterctl keeps of installed providers.

pub mod v1alpha3;
