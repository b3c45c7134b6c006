//! A running server with two tenants, each with a running cluster, and the parties that talk to it.

#![allow(dead_code, reason = "attacks come one by one")]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use clock::{Deadline, SystemClock};
use peers::command;
use peers::process::Process;
use serde_json::{Value, json};
use suites::client::{Request, Server, Session};
use suites::kubeconfig::Kubeconfig;
use suites::target;
use tempfile::TempDir;

/// The namespace and cluster of the tenant that is attacked.
pub(crate) const VICTIM: (&str, &str) = ("team-a", "prod");
/// The namespace and cluster of the tenant that attacks.
pub(crate) const ATTACKER: (&str, &str) = ("team-b", "dev");

/// How long the server may take for what it does by itself.
const PATIENCE: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(100);

/// `herdsman up`, its administrator, and the clusters [`VICTIM`] and [`ATTACKER`].
pub(crate) struct World {
    process: Process,
    directory: TempDir,
    kubeconfig: PathBuf,
    program: PathBuf,
    server: Server,
    /// The server's administrator.
    pub(crate) admin: Party,
    /// The cluster that is attacked.
    pub(crate) victim: Cluster,
    /// The attacking tenant's own cluster.
    pub(crate) own: Cluster,
}

/// A running cluster.
#[derive(Clone, Debug)]
pub(crate) struct Cluster {
    pub(crate) namespace: String,
    pub(crate) name: String,
    /// The name of its management cluster.
    pub(crate) id: String,
    /// The names of its Machines.
    pub(crate) servers: Vec<String>,
    pub(crate) workers: Vec<String>,
}

/// Somebody with a credential.
#[derive(Clone)]
pub(crate) struct Party {
    server: Server,
    /// None: the administrator's certificate.
    token: Option<String>,
}

/// What was answered.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// The body; a string if it is not JSON.
    pub(crate) body: Value,
}

impl World {
    /// Starts the server and waits until both clusters are ready.
    pub(crate) async fn start() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let (data, logs) = (directory.path().join("data"), directory.path().join("logs"));
        std::fs::create_dir(&logs).unwrap();
        let words = ["up", "--listen", "127.0.0.1:0", "--data-dir", data.to_str().unwrap()];
        let (process, kubeconfig) = target::launch(&words, &logs).unwrap();
        let server = Server::new(&Kubeconfig::read(&kubeconfig).unwrap()).unwrap();
        let admin = Party { server: server.clone(), token: None };
        let program = target::herdsman().unwrap();
        let none = |place: (&str, &str)| Cluster {
            namespace: place.0.into(),
            name: place.1.into(),
            id: String::new(),
            servers: Vec::new(),
            workers: Vec::new(),
        };
        let (victim, own) = (none(VICTIM), none(ATTACKER));
        let mut world = World { process, directory, kubeconfig, program, server, admin, victim, own };
        for (namespace, name) in [VICTIM, ATTACKER] {
            world.namespace(namespace).await;
            world.create_cluster(namespace, name);
        }
        world.victim = world.running(VICTIM.0, VICTIM.1).await;
        world.own = world.running(ATTACKER.0, ATTACKER.1).await;
        world
    }

    /// Creates a namespace, unless it is there.
    pub(crate) async fn namespace(&self, name: &str) {
        let body = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        let answer = self.admin.post("/api/v1/namespaces", &body).await;
        assert!([201, 409].contains(&answer.status), "{answer:?}");
    }

    /// A tenant: everything in one namespace, nothing elsewhere. A token by TokenRequest.
    pub(crate) async fn tenant(&self, namespace: &str) -> Party {
        self.namespace(namespace).await;
        let core = format!("/api/v1/namespaces/{namespace}");
        let rbac = format!("/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}");
        let metadata = json!({"name": "tenant", "namespace": namespace});
        let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata});
        let everything = json!({"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]});
        let api = "rbac.authorization.k8s.io/v1";
        let role = json!({"apiVersion": api, "kind": "Role", "metadata": metadata, "rules": [everything]});
        let binding = json!({
            "apiVersion": api, "kind": "RoleBinding", "metadata": metadata,
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "tenant"},
            "subjects": [{"kind": "ServiceAccount", "name": "tenant", "namespace": namespace}],
        });
        for (path, body) in [
            (format!("{core}/serviceaccounts"), account),
            (format!("{rbac}/roles"), role),
            (format!("{rbac}/rolebindings"), binding),
        ] {
            let answer = self.admin.post(&path, &body).await;
            assert!([201, 409].contains(&answer.status), "{answer:?}");
        }
        let request = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}});
        let answer = self.admin.post(&format!("{core}/serviceaccounts/tenant/token"), &request).await;
        self.bearer(&text(&answer.body["status"]["token"]))
    }

    /// Whoever has this token.
    pub(crate) fn bearer(&self, token: &str) -> Party {
        assert!(!token.is_empty());
        Party { server: self.server.clone(), token: Some(token.to_owned()) }
    }

    /// Whoever comes without any credential.
    pub(crate) fn anonymous(&self) -> Party {
        Party { server: self.server.clone(), token: Some(String::new()) }
    }

    /// A K3s cluster of one server and one worker on simulated machines, ready.
    pub(crate) async fn cluster(&self, namespace: &str, name: &str) -> Cluster {
        self.namespace(namespace).await;
        self.create_cluster(namespace, name);
        self.running(namespace, name).await
    }

    fn create_cluster(&self, namespace: &str, name: &str) {
        let pools = ["--pool", "servers:1:server", "--pool", "workers:1:worker"];
        self.herdsman(&[&["create", "cluster", name, "--namespace", namespace], &pools[..]].concat());
    }

    /// A cluster once it is ready, with its machines.
    async fn running(&self, namespace: &str, name: &str) -> Cluster {
        let path = cluster_path(namespace, name);
        let found = self.until("a ready cluster", &self.admin, &path, |one| has(one, "Ready")).await;
        let machines = format!("/apis/cluster.x-k8s.io/v1beta2/namespaces/{namespace}/machines");
        let machines = self.admin.get(&machines).await.body;
        let of = |role: &str| {
            let items = machines["items"].as_array().unwrap().iter();
            let mine = items.filter(|one| one["spec"]["clusterName"] == name);
            let names = mine.map(|one| text(&one["metadata"]["name"]));
            names.filter(|name| name.contains(role)).collect::<Vec<_>>()
        };
        let id = text(&found["status"]["clusterName"]);
        let (servers, workers) = (of("servers"), of("workers"));
        assert!(!id.is_empty() && servers.len() == 1 && workers.len() == 1, "{id} {machines}");
        Cluster { namespace: namespace.into(), name: name.into(), id, servers, workers }
    }

    /// What a stolen node has: the credential of its agent.
    pub(crate) fn stolen(&self, machine: &str) -> Party {
        let file = find(&self.directory.path().join("data"), &|path| {
            path.ends_with("rancher2_connection_info.json")
                && path.components().any(|part| part.as_os_str() == machine)
        });
        let file = file.unwrap_or_else(|| panic!("{machine} has no connection info"));
        let info: Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
        let kubeconfig = info["kubeConfig"].as_str().unwrap();
        let token = kubeconfig.lines().find_map(|line| line.trim().strip_prefix("token: "));
        self.bearer(token.unwrap().trim_matches('"'))
    }

    /// A command of the product's, as the administrator.
    pub(crate) fn herdsman(&self, words: &[&str]) -> String {
        let mut herdsman = Command::new(&self.program);
        command::run(herdsman.args(words).env("KUBECONFIG", &self.kubeconfig))
            .unwrap_or_else(|error| panic!("{error}\n{}", self.log()))
    }

    /// Reads an object until it is as wanted.
    pub(crate) async fn until(
        &self,
        what: &str,
        party: &Party,
        path: &str,
        wanted: impl Fn(&Value) -> bool,
    ) -> Value {
        let deadline = Deadline::after(&SystemClock, PATIENCE);
        loop {
            let answer = party.get(path).await;
            if wanted(&answer.body) {
                return answer.body;
            }
            assert!(!deadline.passed(&SystemClock), "never came: {what}\n{answer:?}\n{}", self.log());
            tokio::time::sleep(POLL).await;
        }
    }

    /// The end of the server's log.
    pub(crate) fn log(&self) -> String {
        self.process.log_tail()
    }

    /// Where the server is.
    pub(crate) fn url(&self) -> String {
        format!("https://{}", self.server.authority())
    }
}

impl Party {
    /// Sends a request with this party's credential.
    pub(crate) async fn ask(
        &self,
        method: &str,
        path: &str,
        body: Option<&Value>,
        headers: &[(&str, &str)],
    ) -> Answer {
        let mut all: Vec<(String, String)> =
            headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        if let Some(token) = self.token.as_ref().filter(|token| !token.is_empty()) {
            all.push(("authorization".into(), format!("Bearer {token}")));
        }
        if body.is_some() && !all.iter().any(|(name, _)| name == "content-type") {
            let patch = method == "PATCH";
            let kind = if patch { "application/merge-patch+json" } else { "application/json" };
            all.push(("content-type".into(), kind.into()));
        }
        let request = Request {
            method: method.into(),
            path: path.into(),
            headers: all,
            body: body.map(Value::to_string).unwrap_or_default().into(),
            as_administrator: self.token.is_none(),
            old: false,
        };
        let answer = Session::new(self.server.clone()).send(&request).await.unwrap();
        let body = serde_json::from_slice(&answer.body);
        let body = body.unwrap_or_else(|_| String::from_utf8_lossy(&answer.body).into_owned().into());
        Answer { status: answer.status, body }
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.ask("GET", path, None, &[]).await
    }

    pub(crate) async fn post(&self, path: &str, body: &Value) -> Answer {
        self.ask("POST", path, Some(body), &[]).await
    }

    /// A merge patch.
    pub(crate) async fn patch(&self, path: &str, body: &Value) -> Answer {
        self.ask("PATCH", path, Some(body), &[]).await
    }

    pub(crate) async fn delete(&self, path: &str) -> Answer {
        self.ask("DELETE", path, None, &[]).await
    }
}

impl Answer {
    /// The body of a request that had to succeed.
    pub(crate) fn ok(self) -> Value {
        assert!((200..300).contains(&self.status), "{self:?}");
        self.body
    }
}

/// Where a provisioning cluster is.
pub(crate) fn cluster_path(namespace: &str, name: &str) -> String {
    format!("/apis/provisioning.cattle.io/v1/namespaces/{namespace}/clusters/{name}")
}

/// Where Secrets are.
pub(crate) fn secrets_path(namespace: &str) -> String {
    format!("/api/v1/namespaces/{namespace}/secrets")
}

/// A condition of an object.
pub(crate) fn condition<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    object["status"]["conditions"].as_array()?.iter().find(|one| one["type"] == kind)
}

/// Whether a condition is true.
pub(crate) fn has(object: &Value, kind: &str) -> bool {
    condition(object, kind).is_some_and(|one| one["status"] == "True")
}

pub(crate) fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// A value of a Secret, decoded.
pub(crate) fn decoded(secret: &Value, key: &str) -> String {
    String::from_utf8(BASE64_STANDARD.decode(text(&secret["data"][key])).unwrap()).unwrap()
}

/// Some bytes as a Secret has them.
pub(crate) fn encoded(value: &str) -> String {
    BASE64_STANDARD.encode(value)
}

fn find(directory: &Path, wanted: &dyn Fn(&Path) -> bool) -> Option<PathBuf> {
    std::fs::read_dir(directory).ok()?.filter_map(Result::ok).find_map(|entry| {
        let path = entry.path();
        if path.is_dir() { find(&path, wanted) } else { wanted(&path).then_some(path) }
    })
}
