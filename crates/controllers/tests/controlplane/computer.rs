//! Machines: the real agent's logic over the API, and a model of the distribution on them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use api::catalogue::{annotations, labels};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use clock::Clock;
use kube::api::{Api, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use plan::agent::{Job, Local, Outcome, Seen, Source, Step, Tended, decide};
use plan::secret::{Data, PlanSecret};
use serde_json::{Value, json};

use crate::world::resource;

/// What etcd and the machines are, as the world knows it.
#[derive(Default)]
pub(crate) struct Truth {
    pub(crate) members: BTreeSet<String>,
    /// Etcd clusters that were ever started.
    pub(crate) started: u32,
    pub(crate) machines: BTreeMap<String, Installed>,
    /// Machines that are off.
    pub(crate) dead: BTreeSet<String>,
    /// The server is stopped: agents do not reach it.
    pub(crate) stopped: bool,
    /// Plans that fail from here on, by machine.
    pub(crate) failures: BTreeMap<String, u32>,
    /// What must never happen, and did.
    pub(crate) wrong: Vec<String>,
    numbers: BTreeMap<String, usize>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Installed {
    pub(crate) stamp: String,
    pub(crate) version: String,
    pub(crate) restarts: u32,
    /// Restarts while the node took pods.
    pub(crate) rude: u32,
    server: bool,
}

impl Truth {
    fn is_up(&self, name: &str) -> bool {
        !self.dead.contains(name) && self.machines.contains_key(name)
    }

    fn has_quorum(&self) -> bool {
        self.members.iter().filter(|name| self.is_up(name)).count() > self.members.len() / 2
    }

    /// An API server answers.
    pub(crate) fn serves(&self) -> bool {
        let server = |(name, installed): (&String, &Installed)| installed.server && self.is_up(name);
        self.has_quorum() && self.machines.iter().any(server)
    }

    pub(crate) fn address(&mut self, name: &str) -> String {
        let next = self.numbers.len() + 1;
        format!("10.0.0.{}", self.numbers.entry(name.to_owned()).or_insert(next))
    }
}

/// One machine.
pub(crate) struct Computer {
    pub(crate) name: String,
    pub(crate) roles: Vec<&'static str>,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) truth: Arc<Mutex<Truth>>,
    /// The management cluster, as the agent sees it.
    pub(crate) management: kube::Client,
    /// The cluster that the machine is of.
    pub(crate) downstream: kube::Client,
}

impl Computer {
    fn has(&self, role: &str) -> bool {
        self.roles.contains(&role)
    }

    /// Lives until it is dropped.
    pub(crate) async fn run(self) {
        let secrets: Api<DynamicObject> = Api::namespaced_with(
            self.management.clone(),
            "fleet-default",
            &resource("", "v1", "Secret", "secrets"),
        );
        let name = api::names::plan_secret(api::names::Bootstrap(&self.name));
        let mut local = Local::default();
        loop {
            tokio::time::sleep(Duration::from_secs(1)).await;
            if self.truth.lock().unwrap().dead.contains(&self.name) {
                continue;
            }
            if self.truth.lock().unwrap().stopped {
                self.kubelet().await;
                continue;
            }
            let Ok(Some(secret)) = secrets.get_opt(&name).await else { continue };
            local = self.act(&secrets, secret, local).await;
            self.kubelet().await;
        }
    }

    /// Does what the agent's logic says until it waits.
    async fn act(&self, secrets: &Api<DynamicObject>, mut secret: DynamicObject, mut local: Local) -> Local {
        for _ in 0..20 {
            let now = self.clock.now();
            let (step, next) = decide(&seen(&secret), &local, now);
            local = next;
            match step {
                Step::Wait { .. } => return local,
                Step::Reread => secret = secrets.get(&name(&secret)).await.unwrap(),
                Step::Write(write, changes) => {
                    let keys: BTreeMap<&str, Value> = changes
                        .iter()
                        .map(|(key, value)| {
                            (*key, value.as_ref().map_or(Value::Null, |value| STANDARD.encode(value).into()))
                        })
                        .collect();
                    let body = json!({"metadata": {"resourceVersion": secret.metadata.resource_version}, "data": keys});
                    match secrets.patch(&name(&secret), &PatchParams::default(), &Patch::Merge(body)).await {
                        Ok(answer) => {
                            local = local.written(&write, &seen(&answer));
                            secret = answer;
                        }
                        Err(_) => match secrets.get_opt(&name(&secret)).await {
                            Ok(Some(live)) => secret = live,
                            _ => return local,
                        },
                    }
                }
                Step::Apply(job) => {
                    let succeeded = self.apply(&job);
                    let none = BTreeMap::new();
                    let outcome = if succeeded { Outcome::Succeeded(none) } else { Outcome::Failed(none) };
                    local = local.applied(&job, outcome, now);
                }
                Step::Tend(chores) => {
                    let up = {
                        let truth = self.truth.lock().unwrap();
                        truth.is_up(&self.name) && (!self.has("etcd") || truth.has_quorum())
                    };
                    let answers = chores.probes.iter().map(|probe| (probe.clone(), up)).collect();
                    local = local.tended(&chores, Tended { runs: Vec::new(), answers }, now);
                }
            }
        }
        local
    }

    /// The installer and the distribution. Says whether the plan succeeds.
    fn apply(&self, job: &Job) -> bool {
        let plan = job.document.plan();
        let mut truth = self.truth.lock().unwrap();
        if let Some(left) = truth.failures.get_mut(&self.name).filter(|left| **left > 0) {
            *left -= 1;
            return false;
        }
        let env = plan.instructions.iter().flat_map(|one| &one.common.env);
        let stamp = env
            .filter_map(|entry| entry.strip_prefix("RESTART_STAMP="))
            .next()
            .unwrap_or_default()
            .to_owned();
        let image = plan.instructions.first().map(|one| one.common.image.clone()).unwrap_or_default();
        let version = image.rsplit(':').next().unwrap_or_default().replacen("-k3s", "+k3s", 1);
        match truth.machines.get(&self.name).cloned() {
            Some(found) if found.stamp == stamp => return true,
            Some(found) => {
                let installed = Installed { stamp, version, restarts: found.restarts + 1, ..found };
                truth.machines.insert(self.name.clone(), installed);
                return true;
            }
            None => {}
        }
        let config = config(plan);
        match config["server"].as_str() {
            None => {
                if !truth.members.is_empty() {
                    let wrong = format!("{} starts a second cluster", self.name);
                    truth.wrong.push(wrong);
                }
                truth.started += 1;
            }
            Some(_) if !truth.has_quorum() => return false,
            Some(_) => {}
        }
        if self.has("etcd") {
            truth.members.insert(self.name.clone());
        }
        let server = self.has("control-plane");
        truth
            .machines
            .insert(self.name.clone(), Installed { stamp, version, server, ..Installed::default() });
        true
    }

    /// Registers the node, and keeps its version.
    async fn kubelet(&self) {
        let (serves, installed, address) = {
            let mut truth = self.truth.lock().unwrap();
            (truth.serves(), truth.machines.get(&self.name).cloned(), truth.address(&self.name))
        };
        let Some(installed) = installed.filter(|_| serves) else { return };
        let nodes: Api<DynamicObject> =
            Api::all_with(self.downstream.clone(), &resource("", "v1", "Node", "nodes"));
        let status = json!({"status": {
            "addresses": [{"type": "InternalIP", "address": address}, {"type": "Hostname", "address": self.name}],
            "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
            "nodeInfo": {"kubeletVersion": installed.version, "machineID": "", "systemUUID": "", "bootID": "",
                "kernelVersion": "", "osImage": "", "containerRuntimeVersion": "", "kubeProxyVersion": "",
                "operatingSystem": "linux", "architecture": "amd64"}
        }});
        match nodes.get_opt(&self.name).await.unwrap() {
            None => {
                let Some(id) = self.identity().await else { return };
                let mut words = json!({labels::MACHINE_UID: id});
                for role in self.roles.iter().filter(|role| **role != "worker") {
                    words[format!("node-role.kubernetes.io/{role}")] = "true".into();
                }
                let node = json!({"apiVersion": "v1", "kind": "Node",
                    "metadata": {"name": self.name, "labels": words},
                    "spec": {"providerID": format!("k3s://{}", self.name)}});
                let node = serde_json::from_value(node).unwrap();
                nodes.create(&PostParams::default(), &node).await.unwrap();
                nodes.patch_status(&self.name, &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
            }
            Some(node) => {
                let version = node.data["status"]["nodeInfo"]["kubeletVersion"].as_str();
                if version != Some(&installed.version) {
                    let cordoned = node.data["spec"]["unschedulable"] == true;
                    if !cordoned {
                        self.truth.lock().unwrap().machines.get_mut(&self.name).unwrap().rude += 1;
                    }
                    nodes
                        .patch_status(&self.name, &PatchParams::default(), &Patch::Merge(status))
                        .await
                        .unwrap();
                }
            }
        }
    }

    /// The id that its config gives the node.
    async fn identity(&self) -> Option<String> {
        let secrets: Api<DynamicObject> = Api::namespaced_with(
            self.management.clone(),
            "fleet-default",
            &resource("", "v1", "Secret", "secrets"),
        );
        let name = api::names::plan_secret(api::names::Bootstrap(&self.name));
        let secret = secrets.get_opt(&name).await.ok()??;
        let plan = PlanSecret::read(&data(&secret)).plan.get()?.plan().clone();
        let prefix = format!("{}=", labels::MACHINE_UID);
        let words = config(&plan)["node-label"].as_array()?.clone();
        words.iter().filter_map(Value::as_str).find_map(|word| word.strip_prefix(&prefix)).map(str::to_owned)
    }
}

/// Kubelets end pods that are to go.
pub(crate) async fn kubelets(downstream: kube::Client) {
    let kind = resource("", "v1", "Pod", "pods");
    let pods: Api<DynamicObject> = Api::namespaced_with(downstream, "default", &kind);
    loop {
        tokio::time::sleep(Duration::from_secs(2)).await;
        for pod in pods.list(&ListParams::default()).await.unwrap().items {
            if pod.metadata.deletion_timestamp.is_some() {
                let now = DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() };
                pods.delete(&name(&pod), &now).await.unwrap();
            }
        }
    }
}

/// The distribution's controller: members that it is asked to remove go while there is a quorum.
pub(crate) async fn etcd(truth: Arc<Mutex<Truth>>, downstream: kube::Client) {
    let nodes: Api<DynamicObject> = Api::all_with(downstream, &resource("", "v1", "Node", "nodes"));
    loop {
        tokio::time::sleep(Duration::from_secs(1)).await;
        if !truth.lock().unwrap().serves() {
            continue;
        }
        for node in nodes.list(&ListParams::default()).await.unwrap().items {
            let notes = node.metadata.annotations.clone().unwrap_or_default();
            let name = node.metadata.name.clone().unwrap();
            let asked = notes.get(annotations::ETCD_REMOVE_K3S).is_some_and(|value| value == "true");
            if !asked || notes.contains_key(annotations::ETCD_REMOVED_NODE_NAME_K3S) {
                continue;
            }
            {
                let mut truth = truth.lock().unwrap();
                truth.members.remove(&name);
                if !truth.has_quorum() {
                    let wrong = format!("the removal of {name} cost etcd its quorum");
                    truth.wrong.push(wrong);
                }
            }
            let patch = json!({"metadata": {"annotations": {annotations::ETCD_REMOVED_NODE_NAME_K3S: name}}});
            nodes.patch(&name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
        }
    }
}

fn name(secret: &DynamicObject) -> String {
    secret.metadata.name.clone().unwrap()
}

pub(crate) fn data(secret: &DynamicObject) -> Data {
    let all = secret.data["data"].as_object().cloned().unwrap_or_default();
    all.into_iter().map(|(key, value)| (key, STANDARD.decode(value.as_str().unwrap()).unwrap())).collect()
}

fn seen(secret: &DynamicObject) -> Seen {
    Seen {
        uid: secret.metadata.uid.clone().unwrap(),
        resource_version: secret.metadata.resource_version.clone().unwrap(),
        source: Source::Live,
        secret: PlanSecret::read(&data(secret)),
    }
}

pub(crate) fn config(plan: &plan::Plan) -> Value {
    let files = plan.files.iter().filter(|file| file.path.ends_with("/50-rancher.yaml"));
    let mut parsed = files.map(|file| serde_json::from_slice(&file.decoded().unwrap()).unwrap());
    parsed.next().unwrap_or(Value::Null)
}
