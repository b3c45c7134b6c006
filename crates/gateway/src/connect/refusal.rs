//! Why a host is not registered, in words for its log.

use http::{Response, StatusCode};
use kit::Key;

use crate::body::{self, Body};
use crate::issue;

/// Why a host is not registered.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    /// Nothing to introduce itself with.
    #[error("there is no token: pass --token, or CATTLE_TOKEN")]
    NoToken,
    /// Hosts are told apart by their ids.
    #[error("header X-Cattle-Id is missing")]
    NoId,
    /// An id that no label can have.
    #[error("header X-Cattle-Id: Invalid value: it must have up to 63 letters, digits, '-', '_' or '.'")]
    BadId,
    /// Labels that are not the host's to give.
    #[error("header X-Cattle-Labels: {0}")]
    Labels(String),
    /// The controller's words.
    #[error("{0}")]
    Refused(String),
    /// The Machine that was found is not this host's.
    #[error(
        "this host is not the one that registered before: remove /etc/rancher/agent/cattle-id from it, then run the command again"
    )]
    OtherHost,
    /// Another Machine of the cluster has the id.
    #[error(
        "another machine of the cluster has this host's id, as where disks are copied: remove /etc/rancher/agent/cattle-id from the host, \
         then run the command again"
    )]
    IdTaken,
    /// Nobody knows the token, or it has ended.
    #[error(
        "the token is not known, or no longer good: a machine's own token is for one use within 30 minutes, a cluster's may have been replaced; get a new one from the server"
    )]
    UnknownToken,
    /// A tunnel's token.
    #[error(
        "this token is for the cluster's tunnel: it registers no nodes; use the cluster's registration command"
    )]
    TunnelToken,
    /// An agent's token.
    #[error("this token is for a node that has registered: use the cluster's registration command")]
    AgentToken,
    /// The token's machine is gone.
    #[error("the machine of this token is gone, or is being deleted")]
    NoMachine,
    /// The token's cluster is gone.
    #[error("there is no cluster for {0}: it may have been deleted")]
    NoCluster(String),
    /// A cluster that somebody else runs.
    #[error("cluster {0} takes no nodes: it was imported, or has no rkeConfig")]
    TakesNoNodes(Key),
    /// A cluster that is being deleted.
    #[error("cluster {0} is being deleted")]
    ClusterGoes(Key),
    /// We have only just started.
    #[error("the server has only just started: it does not know all tokens yet")]
    NotReady,
    /// Something that comes by itself.
    #[error(
        "the machine's plan is not there yet: waiting for the cluster's infrastructure and the machine's bootstrap objects; look at the cluster's conditions if this goes on"
    )]
    NotYet,
    /// What the server knows is not what is.
    #[error("the server has more to do than it can: come again in a while")]
    Lagging,
    /// The management cluster.
    #[error("the management cluster does not do as it should: {0}")]
    Kubernetes(#[from] kube::Error),
    /// The token to be.
    #[error(transparent)]
    Issue(#[from] issue::Error),
    /// The plan cannot be read.
    #[error("the machine's plan has no {0} yet")]
    NothingYet(&'static str),
    /// A field that we do not tell.
    #[error("header X-Cattle-Field: Unsupported value: {0:?}: supported values: \"kubernetesversion\"")]
    Field(String),
}

impl Refusal {
    /// Whether somebody may be guessing.
    pub fn is_suspicious(&self) -> bool {
        matches!(self, Refusal::NoToken | Refusal::UnknownToken | Refusal::TunnelToken | Refusal::AgentToken)
    }

    /// As the installers understand it: 401 means another token, 503 means later.
    pub fn code(&self) -> StatusCode {
        match self {
            Refusal::NoToken
            | Refusal::NoId
            | Refusal::UnknownToken
            | Refusal::TunnelToken
            | Refusal::AgentToken => StatusCode::UNAUTHORIZED,
            Refusal::BadId | Refusal::Field(_) | Refusal::Labels(_) => StatusCode::BAD_REQUEST,
            Refusal::NoMachine
            | Refusal::OtherHost
            | Refusal::IdTaken
            | Refusal::Refused(_)
            | Refusal::NoCluster(_)
            | Refusal::TakesNoNodes(_)
            | Refusal::ClusterGoes(_) => StatusCode::FORBIDDEN,
            Refusal::NotReady | Refusal::NotYet | Refusal::Lagging | Refusal::NothingYet(_) => {
                StatusCode::SERVICE_UNAVAILABLE
            }
            Refusal::Kubernetes(_) | Refusal::Issue(_) => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }

    /// The answer.
    pub fn answer(&self) -> Response<Body> {
        let answer = body::text(self.code(), self.to_string());
        match self.code() {
            StatusCode::SERVICE_UNAVAILABLE => body::retry_after(answer, 5),
            _ => answer,
        }
    }
}
