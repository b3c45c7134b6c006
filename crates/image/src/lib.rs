//! A container image's files into a directory, for the node agent.
//!
//! [`stage`] is the whole way: archives on this machine first, then the registry's mirrors and the registry itself
//! as `registries.yaml` says, then the layers one over the other into a directory that nothing in them gets out of.
//! What decides is pure: [`mod@reference`], [`registries`], [`attempts`]. `stage.rs` has the order of things.
//!
//! Where we do otherwise than Rancher's agent: images by digest are found and pulled; archives are tried in the order
//! of their names; credential providers are used; a registry's own credentials are not sent to its mirrors; links in an
//! image lead nowhere outside.

mod archives;
pub mod attempts;
mod challenge;
mod client;
mod compression;
mod credentials;
pub mod digest;
pub mod extract;
mod keychain;
mod limits;
pub mod manifest;
mod provider;
mod pull;
pub mod reference;
pub mod registries;
mod root;
mod session;
mod stage;
#[cfg(test)]
mod testing;
mod tls;
mod url;

pub use archives::Error as ArchiveError;
pub use limits::Limits;
pub use manifest::Platform;
pub use outbound::proxy::Proxies;
pub use pull::{Error as PullError, NotPulled};
pub use reference::Reference;
pub use stage::{Error, Options, Staged, stage};
