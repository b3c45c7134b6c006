//! What a change would do.
