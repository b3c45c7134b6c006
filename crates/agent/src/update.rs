//! A plan may replace the agent's own binary, by a file or by an instruction; and so does the server, by naming another one on the
//! plan Secret ([`plan::binary`]), which the agent then fetches. When all is reported and there is
//! nothing to do, the agent goes over to the binary that it finds in its place, on trial: one that does not
//! reach its server within [`TRIAL`], or is started again and again, is taken back. State stays where it is.
//!
//! [`judge`] and [`wants`] decide, without IO; [`Keeper`] does what they say.

mod beside;
mod follow;
mod judge;
mod keeper;

pub use beside::superseded;
pub use follow::Followed;
pub use judge::{Event, REJECTED, Rejected, STARTS, State, TRIAL, Trial, Verdict, judge, wants};
pub use keeper::{Error, Keeper};
