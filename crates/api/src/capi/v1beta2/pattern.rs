//! What names look like, as the API server checks them.

/// A DNS subdomain: names of objects and API groups.
pub(super) const SUBDOMAIN: &str = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$";
/// A DNS label: names of namespaces.
pub(super) const LABEL: &str = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$";
/// A kind.
pub(super) const KIND: &str = r"^[a-zA-Z]([-a-zA-Z0-9]*[a-zA-Z0-9])?$";
/// A group and a version.
pub(super) const API_VERSION: &str =
    r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*\/[a-z]([-a-z0-9]*[a-z0-9])?$";
/// The type of a condition, with or without a prefix.
pub(super) const CONDITION_TYPE: &str = r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$";
/// The key of a taint, with or without a prefix.
pub(super) const TAINT_KEY: &str = r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*\/)?([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$";
/// The value of a taint.
pub(super) const TAINT_VALUE: &str = r"^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$";
/// Two numbers in brackets.
pub(super) const RANGE: &str = r"^\[[0-9]+-[0-9]+\]$";
