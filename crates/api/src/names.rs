//! Names of objects. They are part of the wire: other software finds objects by them, so every rule is followed to
//! the byte.

mod hash;
mod objects;
mod random;
mod safe_concat;

pub use hash::{label_value, md5_hex, plan_hash};
pub use objects::*;
pub use random::{management_cluster, token};
pub use safe_concat::{safe_concat, safe_concat_within};

#[cfg(test)]
mod vectors;
