//! The graph: golden shapes, the change matrix, properties.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod changes;
mod fits;
mod golden;
mod properties;
mod refusals;
mod shape;
