//! The conformance suite: requests and what has to come back, written as tables in `tests/conformance/*.yaml`, run
//! against any server. `tests/conformance/README.md` explains the tables.

mod admission;
mod audited;
mod call;
pub mod case;
pub mod document;
pub mod matching;
mod run;
mod stream;
mod variables;
mod webhook;

pub use run::{Outcome, run_all};
