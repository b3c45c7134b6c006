//! The node agent: watches one Secret, makes the machine what the plan in it says, and reports back in the same
//! Secret.
//!
//! What to do next is decided by crate `plan`, without IO; here it is done. The machine is behind [`machine`]: its
//! file system has a root, and programs, images, probes and time come from outside, so that a simulated machine
//! runs this very code.
//!
//! | module | what |
//! |---|---|
//! | [`config`], [`kubeconfig`] | what the installer says |
//! | [`connect`], [`client`], [`watch`], [`object`], [`start`], [`authority`] | the way to the API, and the Secret there |
//! | [`machine`], [`linux`], [`registry`] | the machine, and the real one with its images |
//! | [`disk`], [`files`], [`capture`], [`apply`], [`probes`] | what is done to it |
//! | [`remote`], [`local`] | the loops: the Secret, the directory of plans |
//! | [`tunnel`](mod@tunnel) | the cluster that the machine is part of, for the server |
//! | [`moved`] | another server |
//! | [`journal`], [`update`] | what has to survive the process; a binary that replaces ours |
//! | [`cli`], [`daemon`], [`log`] | the command |

pub mod apply;
pub mod authority;
pub mod capture;
pub mod cli;
pub mod client;
pub mod config;
pub mod connect;
pub mod daemon;
pub mod disk;
mod fields;
pub mod files;
pub mod journal;
pub mod kubeconfig;
pub mod linux;
pub mod local;
pub mod log;
pub mod machine;
pub mod moved;
pub mod object;
pub mod probes;
pub mod registry;
pub mod remote;
pub mod retry;
pub mod start;
mod systemd;
pub mod tunnel;
pub mod update;
pub mod watch;

pub use fields::Problem;

/// An error with all that caused it, in one line.
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        let said = inner.to_string();
        // Some libraries repeat the cause in their own words.
        if !text.ends_with(&said) {
            text.push_str(": ");
            text.push_str(&said);
        }
        cause = inner.source();
    }
    text
}
