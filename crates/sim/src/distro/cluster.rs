//! One cluster: who its servers are, who of them has a quorum, and its API server.
//!
//! There is one API server and one store for a cluster, however many servers it has: what they replicate is not simulated,
//! who may serve it is.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use apiserver::http::Api;
use apiserver::instance::Instance;
use apiserver::pki::Pki;
use kubeapi::authn::{MASTERS, User};
use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::Runtime;
use super::etcd::{Member, Members};
use crate::events::Log;
use crate::ground::Chance;
use crate::machine::MachineName;
use crate::network::{Network, Place};
use crate::upstream::Trusts;

/// What is kept of a cluster beside its objects.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Kept {
    pub(crate) id: String,
    pub(crate) runtime: Runtime,
    pub(crate) server_token: String,
    pub(crate) agent_token: String,
    #[serde(default)]
    pub(crate) members: Members,
    /// What files of manifests have brought, by the file's name.
    #[serde(default)]
    pub(crate) deployed: BTreeMap<String, BTreeSet<super::deploy::Deployed>>,
}

/// A server that runs.
#[derive(Clone, Debug)]
pub(crate) struct Running {
    pub(crate) address: Ipv4Addr,
    /// It has an API server.
    pub(crate) api: bool,
}

/// A kubelet that runs.
#[derive(Clone, Debug)]
pub(crate) struct Kubelet {
    pub(crate) machine: MachineName,
    pub(crate) address: Ipv4Addr,
}

struct State {
    kept: Kept,
    running: BTreeMap<MachineName, Running>,
    /// By node.
    kubelets: BTreeMap<String, Kubelet>,
}

/// What nodes join at.
#[derive(Clone)]
pub(crate) struct Supervisor {
    pub(crate) cluster: Arc<Cluster>,
    pub(crate) machine: MachineName,
}

/// What a cluster stands on.
pub(crate) struct Base {
    pub(crate) directory: PathBuf,
    pub(crate) durable: bool,
    pub(crate) network: Network,
    pub(crate) log: Log,
    pub(crate) trusts: Arc<Trusts>,
    pub(crate) chance: Chance,
    pub(crate) clock: Arc<dyn clock::Clock>,
}

/// One cluster.
pub(crate) struct Cluster {
    pub(crate) id: String,
    pub(crate) runtime: Runtime,
    pub(crate) pki: Arc<Pki>,
    pub(crate) base: Base,
    pub(crate) api: Api,
    state: Mutex<State>,
    changed: watch::Sender<u64>,
    instance: Mutex<Option<Instance>>,
    upkeep: Mutex<Option<JoinHandle<()>>>,
}

impl Cluster {
    pub(crate) fn new(kept: Kept, base: Base, pki: Arc<Pki>, instance: Instance) -> Self {
        Cluster {
            id: kept.id.clone(),
            runtime: kept.runtime,
            pki,
            base,
            api: instance.api().clone(),
            state: Mutex::new(State { kept, running: BTreeMap::new(), kubelets: BTreeMap::new() }),
            changed: watch::Sender::new(0),
            instance: Mutex::new(Some(instance)),
            upkeep: Mutex::new(None),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn say(&self, what: impl Into<String>) {
        self.base.log.say(&self.id, what);
    }

    /// A client with all rights, in the process.
    pub(crate) fn client(&self, name: &str) -> kube::Client {
        let user = User { name: name.into(), groups: vec![MASTERS.into()], ..User::default() };
        kube::Client::new(self.api.as_user(user), "default")
    }

    pub(crate) fn is_server_token(&self, token: &str) -> bool {
        self.state().kept.server_token == token
    }

    pub(crate) fn is_agent_token(&self, token: &str) -> bool {
        let state = self.state();
        state.kept.server_token == token || (state.kept.agent_token == token && !token.is_empty())
    }

    pub(crate) fn is_member(&self, machine: &MachineName) -> bool {
        self.state().kept.members.contains(machine)
    }

    pub(crate) fn members(&self) -> Members {
        self.state().kept.members.clone()
    }

    /// What is kept, for who changes it.
    pub(crate) fn change<T>(&self, change: impl FnOnce(&mut Kept) -> T) -> Result<T, String> {
        let mut state = self.state();
        let mut next = state.kept.clone();
        let answer = change(&mut next);
        if next != state.kept {
            super::clusters::save(&self.base, &next)?;
            state.kept = next;
        }
        Ok(answer)
    }

    /// A server runs while this is held; with the name of a new member it joins etcd first, which takes a quorum.
    ///
    /// # Errors
    /// If etcd has no quorum to take a member.
    pub(crate) fn attach(
        self: &Arc<Self>,
        machine: &MachineName,
        running: Running,
        new_member: Option<&str>,
    ) -> Result<Attached, String> {
        {
            let mut state = self.state();
            if let Some(name) = new_member {
                let first = state.kept.members.len() == 0;
                if !first && !self.quorum_reached_from(&state, running.address) {
                    return Err(
                        "etcdserver: re-configuration failed due to not enough started members".into()
                    );
                }
                let mut next = state.kept.clone();
                next.members.add(machine.clone(), Member { name: name.to_owned(), address: running.address });
                super::clusters::save(&self.base, &next)?;
                state.kept = next;
            }
            state.running.insert(machine.clone(), running);
        }
        self.notify();
        Ok(Attached { cluster: self.clone(), machine: machine.clone() })
    }

    /// A kubelet runs while this is held.
    pub(crate) fn kubelet(self: &Arc<Self>, node: &str, kubelet: Kubelet) -> KubeletUp {
        self.state().kubelets.insert(node.to_owned(), kubelet);
        self.notify();
        KubeletUp { cluster: self.clone(), node: node.to_owned() }
    }

    /// Takes a member out of etcd, if there is a quorum to do so. Gives the member.
    pub(crate) fn remove_member(&self, machine: &MachineName) -> Result<Option<Member>, String> {
        if self.endpoint(None).is_none() {
            return Err("etcd has no quorum".into());
        }
        if self.members().len() == 1 && self.is_member(machine) {
            return Err("it is the last one".into());
        }
        let removed = self.change(|kept| kept.members.remove(machine))?;
        self.notify();
        Ok(removed)
    }

    /// The machine is gone for good, and with it what it knew. Says whether it was the last that had data.
    pub(crate) fn forget(&self, machine: &MachineName, live: &BTreeSet<MachineName>) -> bool {
        let state = self.state();
        let members = &state.kept.members;
        let had = members.contains(machine) || (members.len() == 0 && state.running.is_empty());
        had && !members.iter().any(|(member, _)| member != machine && live.contains(member))
    }

    fn notify(&self) {
        self.changed.send_modify(|count| *count += 1);
    }

    /// Live kubelets, by node.
    pub(crate) fn kubelets(&self) -> BTreeMap<String, Kubelet> {
        self.state().kubelets.clone()
    }

    fn has_quorum(&self, state: &State, at: &MachineName) -> bool {
        let running: BTreeSet<MachineName> = state.running.keys().cloned().collect();
        let address = |machine: &MachineName| state.running.get(machine).map(|running| running.address);
        state.kept.members.has_quorum(at, &running, |from, to| {
            matches!((address(from), address(to)), (Some(from), Some(to)) if self.base.network.reaches(from, to))
        })
    }

    /// Whether a member with a quorum can be reached.
    fn quorum_reached_from(&self, state: &State, from: Ipv4Addr) -> bool {
        state.running.iter().any(|(machine, running)| {
            (running.address == from || self.base.network.reaches(from, running.address))
                && self.has_quorum(state, machine)
        })
    }

    /// Whether a server, a member or not, has a quorum behind it.
    pub(crate) fn has_quorum_at(&self, machine: &MachineName) -> bool {
        let state = self.state();
        let Some(running) = state.running.get(machine) else { return false };
        match state.kept.members.contains(machine) {
            true => self.has_quorum(&state, machine),
            false => self.quorum_reached_from(&state, running.address),
        }
    }

    /// Whether a server answers as the API.
    pub(crate) fn has_api_at(&self, machine: &MachineName) -> bool {
        let api = self.state().running.get(machine).is_some_and(|running| running.api);
        api && self.has_quorum_at(machine)
    }

    /// An API server that answers; one that a host reaches, if one is named.
    pub(crate) fn endpoint(&self, from: Option<Ipv4Addr>) -> Option<Place> {
        let running = self.state().running.clone();
        let reached = |to: Ipv4Addr| from.is_none_or(|from| self.base.network.reaches(from, to));
        let mut all = running.iter().filter(|(machine, running)| {
            running.api && reached(running.address) && self.has_quorum_at(machine)
        });
        all.next().map(|(_, running)| (running.address, 6443))
    }

    /// Whether the API answers a host.
    pub(crate) fn serves(&self, from: Ipv4Addr) -> bool {
        self.endpoint(Some(from)).is_some()
    }

    /// Waits until something is so.
    pub(crate) async fn until(&self, so: impl Fn(&Cluster) -> bool) {
        let (mut changed, mut network) = (self.changed.subscribe(), self.base.network.changes());
        while !so(self) {
            tokio::select! {
                biased;
                _ = changed.changed() => {}
                _ = network.changed() => {}
            }
        }
    }

    /// Has something done for as long as the cluster is there.
    pub(crate) fn keep_up(self: &Arc<Self>) {
        let task = tokio::spawn(super::upkeep::run(self.clone()));
        *self.upkeep.lock().unwrap_or_else(PoisonError::into_inner) = Some(task);
    }

    /// Ends it. Its store is closed when nobody holds it any more.
    pub(crate) async fn stop(&self) {
        let upkeep = self.upkeep.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(upkeep) = upkeep {
            upkeep.abort();
            let _ = upkeep.await;
        }
        let instance = self.instance.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(instance) = instance {
            instance.stop().await;
        }
    }
}

/// A server that runs.
pub(crate) struct Attached {
    cluster: Arc<Cluster>,
    machine: MachineName,
}

impl Drop for Attached {
    fn drop(&mut self) {
        self.cluster.state().running.remove(&self.machine);
        self.cluster.notify();
    }
}

/// A kubelet that runs.
pub(crate) struct KubeletUp {
    cluster: Arc<Cluster>,
    node: String,
}

impl Drop for KubeletUp {
    fn drop(&mut self) {
        self.cluster.state().kubelets.remove(&self.node);
        self.cluster.notify();
    }
}
