//! Selectors: which objects a request is about, by label or by field.

pub mod field;
pub mod label;
