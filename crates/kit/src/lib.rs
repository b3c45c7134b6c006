//! What the controllers share and none of them owns.

pub mod conditions;
