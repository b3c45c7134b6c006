//! What the suites in `tests/tests` share.

pub mod schema_diff;
