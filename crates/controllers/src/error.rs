//! Why a look at a cluster or one of its machines failed: the same for all groups that work with `Objects`.

use kit::Key;
use kit::object::Unreadable;

use crate::objects;

/// Why a look failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Something was not done.
    #[error(transparent)]
    Objects(#[from] objects::Error),
    /// A write failed.
    #[error(transparent)]
    Write(#[from] kit::write::Error),
    /// An object is not what its type says.
    #[error(transparent)]
    Unreadable(#[from] Unreadable),
    /// An object cannot be read or written as its type.
    #[error("{what} cannot be read or written as its type")]
    Shape {
        /// Which object.
        what: String,
        /// What does not fit.
        #[source]
        problem: serde_json::Error,
    },
    /// An object of a name that we need belongs to somebody else.
    #[error(transparent)]
    Taken(#[from] provisioning::graph::difference::Conflict),
    /// A cluster is not reached now.
    #[error(transparent)]
    NotConnected(#[from] kit::access::NotConnected),
    /// A cluster did not answer as it should.
    #[error("cannot look for the node of machine {machine}")]
    Remote {
        /// Whose node.
        machine: Key,
        /// The answer.
        #[source]
        answer: Box<kube::Error>,
    },
}

impl Error {
    /// Whether somebody else was faster, so that the next look starts from what is there.
    pub(crate) fn is_conflict(&self) -> bool {
        match self {
            Error::Objects(error) => error.is_conflict(),
            Error::Write(error) => error.code() == Some(409),
            _ => false,
        }
    }
}
