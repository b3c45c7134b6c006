//! `operation.cattle.io`: day-2 operations as objects of their own.

pub mod v1alpha1;
