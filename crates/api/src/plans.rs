//! `plan.cattle.io`: who may write plans.

pub mod v1alpha1;
