//! Everyday kubectl, written as tables in `tests/kubectl/*.yaml`: the same commands on two servers, the same exit codes
//! and the same output where output can be the same.

pub mod compare;
mod normal;
pub mod recorded;
pub mod run;
pub mod script;
pub mod versions;
