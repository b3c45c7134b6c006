//! Two sessions over a simulated network, in simulated time, from a seed: delays, pieces of any size, cuts, silence, and
//! tasks in any order.

mod link;
mod places;
mod sessions;

mod keeping;
mod transfers;
