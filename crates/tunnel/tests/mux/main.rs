//! The streams of a session as pure decisions: tables, and properties over random orders of everything.

mod model;
mod rules;
