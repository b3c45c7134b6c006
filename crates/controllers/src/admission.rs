//! What is refused, warned of and filled in at the door, with everything looked up that has to be.
//!
//! What is decided is in [`provisioning::admission`]. The same [`Door`] stands in the embedded server and, behind
//! webhooks, before a real one ([`review`]).

mod clusters;
mod machines;
mod others;
pub mod review;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};

use ::provisioning::admission::Operation;
use api::Kind as _;
use api::machine::{self, CONFIG_GROUP};
use api::management::v3::NodeDriver;
use api::provisioning::v1::Cluster;
use kube::Client;
use kubeapi::{FieldError, GroupKind, Status};
use planner::Releases;
use serde_json::Value;

/// Who writes.
#[derive(Clone, Debug, Default)]
pub struct Asker {
    /// Name.
    pub name: String,
    /// UID, if known.
    pub uid: String,
    /// Groups.
    pub groups: Vec<String>,
    /// What else the authenticator knows.
    pub extra: BTreeMap<String, Vec<String>>,
}

impl Asker {
    /// Whether they may do everything.
    pub(crate) fn is_master(&self) -> bool {
        self.groups.iter().any(|group| group == kubeapi::authn::MASTERS)
    }
}

/// A write.
#[derive(Clone, Copy, Debug)]
pub struct Write<'a> {
    /// What is done.
    pub operation: Operation,
    /// Group of the object.
    pub group: &'a str,
    /// Kind of the object, not of the part that is written.
    pub kind: &'a str,
    /// Which part; empty for the whole.
    pub subresource: &'a str,
    /// Where.
    pub namespace: &'a str,
    /// Name; empty if it is yet to be made up.
    pub name: &'a str,
    /// Who writes.
    pub asker: &'a Asker,
    /// What is there now.
    pub old: Option<&'a Value>,
    /// Nothing is stored in the end.
    pub dry_run: bool,
}

/// What a write is about, as far as it concerns us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Concern {
    Cluster,
    Secret,
    MachineConfig,
    Machine,
    NodeDriver,
}

impl Concern {
    fn of(group: &str, kind: &str, subresource: &str) -> Option<Self> {
        match (group, kind, subresource) {
            (Cluster::GROUP, Cluster::KIND, "") => Some(Concern::Cluster),
            ("", "Secret", "") => Some(Concern::Secret),
            (CONFIG_GROUP, _, "") => Some(Concern::MachineConfig),
            (machine::GROUP, _, "") => Some(Concern::Machine),
            (NodeDriver::GROUP, NodeDriver::KIND, "") => Some(Concern::NodeDriver),
            _ => None,
        }
    }
}

impl Write<'_> {
    fn concern(&self) -> Option<Concern> {
        Concern::of(self.group, self.kind, self.subresource)
    }
}

/// Warnings for whoever writes, or a refusal.
pub type Answer = Result<Vec<String>, Status>;

/// Judges and completes what is written.
#[derive(Default)]
pub struct Door {
    client: OnceLock<Client>,
    releases: Arc<Releases>,
    /// The versions that the release data tells of, if it is from a file.
    versions: Option<BTreeSet<String>>,
    /// Whether reviews may be made up: then answers tell nothing of other objects.
    anybody_asks: bool,
}

impl std::fmt::Debug for Door {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "a door, open: {}", self.client.get().is_some())
    }
}

impl Door {
    /// A door that knows which arguments distributions take.
    pub fn new(releases: Arc<Releases>) -> Self {
        Door { client: OnceLock::new(), versions: releases.versions(), releases, anybody_asks: false }
    }

    /// The same, looking things up by this client.
    pub fn opened(client: Client, releases: Arc<Releases>) -> Self {
        let door = Door::new(releases);
        door.open(client);
        door
    }

    /// The same where anybody may ask, in anybody's name: it judges as well, and tells nothing of what it looked up.
    pub fn for_anybody(client: Client, releases: Arc<Releases>) -> Self {
        Door { anybody_asks: true, ..Door::opened(client, releases) }
    }

    /// Gives a new door the client by which it looks things up: the embedded server has one only once it runs. Until
    /// then whatever needs a look is refused for now.
    pub fn open(&self, client: Client) {
        let _ = self.client.set(client);
    }

    /// Whether a write of this kind has to be asked about at all.
    pub fn concerns(group: &str, kind: &str, subresource: &str) -> bool {
        Concern::of(group, kind, subresource).is_some()
    }

    /// Completes an object that is created or changed. Nothing else is written.
    ///
    /// # Errors
    /// If the object is not one of its kind, or nothing can be looked up.
    pub async fn fill_in(&self, write: Write<'_>, object: &mut Value) -> Answer {
        match write.concern() {
            Some(Concern::Cluster) => clusters::fill_in(self, write, object).await?,
            Some(Concern::MachineConfig) => others::note_creator(write, object),
            Some(Concern::Secret) if others::is_credential(object) => others::note_creator(write, object),
            _ => {}
        }
        Ok(Vec::new())
    }

    /// Judges a write. Nothing is written: who reaches the webhooks gains nothing by them. A deletion has no object.
    ///
    /// # Errors
    /// The refusal.
    pub async fn judge(&self, write: Write<'_>, object: Option<&Value>) -> Answer {
        match (write.concern(), object) {
            (Some(Concern::Cluster), object) => clusters::judge(self, write, object).await,
            (Some(Concern::Secret), Some(secret)) => others::secret(write, secret),
            (Some(Concern::MachineConfig), Some(config)) => {
                others::creator(write, config)?;
                machines::judge(self, write, config).await
            }
            (Some(Concern::Machine), Some(machine)) => machines::judge(self, write, machine).await,
            (Some(Concern::NodeDriver), object) => others::driver(self, write, object).await,
            _ => Ok(Vec::new()),
        }
    }

    fn client(&self) -> Result<&Client, Status> {
        let closed = || Status::unavailable("the server is starting: try again in a moment");
        self.client.get().ok_or_else(closed)
    }
}

/// A refusal with the fields that are wrong.
fn refused(write: &Write<'_>, code: u16, errors: &[FieldError]) -> Status {
    let kind = GroupKind { group: write.group.into(), kind: write.kind.into() };
    let reason = match code {
        400 => "BadRequest",
        401 => "Unauthorized",
        403 => "Forbidden",
        _ => "Invalid",
    };
    Status { code, reason: reason.into(), ..Status::invalid(&kind, write.name, errors) }
}

/// Something could not be looked up.
fn unknown(what: &str, answer: &kube::Error) -> Status {
    match answer {
        kube::Error::Api(status) if status.code == 403 => {
            Status::internal(format!("cannot look up {what}: {}", status.message))
        }
        other => Status::unavailable(format!("cannot look up {what}: {other}")),
    }
}
