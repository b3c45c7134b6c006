//! A data directory that an earlier version left behind, opened by this one: no machine is replaced, no node restarts, no plan is delivered.
//!
//! The directory is a fixture beside the repository; `HERDSMAN_FIXTURES` names another place. Its nodes have the server's port in their
//! files, so that one server at a time can run on a copy of it.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use api::catalogue::{annotations, labels};
use kube::api::{Api, ApiResource, DynamicObject, ListParams, Patch, PatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config, ResourceExt as _};
use serde_json::{Value, json};
use tokio::sync::Mutex;

use crate::program::{Server, herdsman, text};

/// Where the directory's server listened.
const LISTEN: &str = "127.0.0.1:20443";
const NAMESPACE: &str = "fleet-default";
/// Its clusters that have nodes.
const CLUSTERS: [&str; 2] = ["k3s-small", "rke2-ha"];
const WORKER: &str = "rke2-ha-workers-6ff6m-tfs9n";

/// One server at a time.
static PORT: Mutex<()> = Mutex::const_new(());

/// The archive with the directory; none if the fixtures are not there.
fn fixture() -> Option<PathBuf> {
    let beside = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/fixtures");
    let fixtures = std::env::var_os("HERDSMAN_FIXTURES").map_or_else(beside, PathBuf::from);
    let archive = fixtures.join("data-dirs/565a6e8.tar.gz");
    if !archive.exists() {
        println!("skip data-directory-upgrade: {} is not there (HERDSMAN_FIXTURES)", archive.display());
        return None;
    }
    Some(archive)
}

/// A copy of the directory and of what its server answered.
struct Old {
    directory: tempfile::TempDir,
}

impl Old {
    fn unpack(archive: &Path) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let unpacked = Command::new("tar").arg("-xzf").arg(archive).arg("-C").arg(directory.path()).status();
        assert!(unpacked.unwrap().success());
        Old { directory }
    }

    fn data(&self) -> PathBuf {
        self.directory.path().join("d")
    }

    /// UIDs by name, as the old server answered.
    fn answered(&self, file: &str) -> BTreeMap<String, String> {
        let list: Value =
            serde_json::from_slice(&std::fs::read(self.directory.path().join(file)).unwrap()).unwrap();
        let uid = |one: &Value| {
            let part = |field: &str| one["metadata"][field].as_str().unwrap().to_owned();
            (part("name"), part("uid"))
        };
        list["items"].as_array().unwrap().iter().map(uid).collect()
    }
}

async fn client(kubeconfig: &str) -> Client {
    let read = Kubeconfig::from_yaml(kubeconfig).unwrap();
    let config = Config::from_custom_kubeconfig(read, &KubeConfigOptions::default()).await.unwrap();
    Client::try_from(config).unwrap()
}

/// Whoever serves a data directory, as its administrator.
struct Admin {
    kubeconfig: PathBuf,
    client: Client,
}

impl Admin {
    async fn of(data: &Path) -> Self {
        let kubeconfig = data.join("admin.kubeconfig");
        let client = client(&std::fs::read_to_string(&kubeconfig).unwrap()).await;
        Admin { kubeconfig, client }
    }

    fn api(&self, group: &str, version: &str, plural: &str) -> Api<DynamicObject> {
        let api_version = if group.is_empty() { version.into() } else { format!("{group}/{version}") };
        let (group, version, plural) = (group.into(), version.into(), plural.into());
        let resource = ApiResource { group, version, api_version, kind: String::new(), plural };
        match (resource.group.as_str(), resource.plural.as_str()) {
            ("", "namespaces") | ("management.cattle.io", "clusters") => {
                Api::all_with(self.client.clone(), &resource)
            }
            _ => Api::namespaced_with(self.client.clone(), NAMESPACE, &resource),
        }
    }

    async fn list(&self, group: &str, version: &str, plural: &str) -> BTreeMap<String, Value> {
        let found = self.api(group, version, plural).list(&ListParams::default()).await.unwrap();
        found.iter().map(|one| (one.name_any(), serde_json::to_value(one).unwrap())).collect()
    }

    async fn bootstraps(&self) -> BTreeMap<String, Value> {
        self.list("rke.cattle.io", "v1", "rkebootstraps").await
    }

    /// The plan Secrets, by the names of their RKEBootstraps.
    async fn secrets(&self) -> BTreeMap<String, Value> {
        let all = self.list("", "v1", "secrets").await.into_iter();
        all.filter_map(|(name, one)| Some((name.strip_suffix("-machine-plan")?.to_owned(), one))).collect()
    }

    /// What was delivered, when, and how often it was applied.
    async fn plans(&self) -> BTreeMap<String, Value> {
        let of = |(name, one): (String, Value)| {
            let delivered = &one["metadata"]["annotations"][annotations::PLAN_LAST_UPDATED];
            let keys = ["plan", "plan-revision", "plan-state", "success-count"].map(|key| &one["data"][key]);
            (name, json!([keys, delivered]))
        };
        self.secrets().await.into_iter().map(of).collect()
    }

    /// What the program says of an unchanged cluster: nothing changes.
    fn changes_nothing(&self, cluster: &str) {
        let run = |words: &[&str]| {
            let output = herdsman(words).env("KUBECONFIG", &self.kubeconfig).output().unwrap();
            let said = String::from_utf8_lossy(&output.stdout).into_owned();
            let code = output.status.code();
            assert_eq!(code, Some(0), "{words:?}: {said}{}", String::from_utf8_lossy(&output.stderr));
            said
        };
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), run(&["get", "cluster", cluster, "-o", "yaml"])).unwrap();
        let said = run(&["plan", "-f", text(file.path())]);
        assert!(said.contains("nothing changes"), "{said}");
    }
}

/// Init node, join URL, where it joined, whether the URL is fixed: of a plan Secret or an RKEBootstrap.
fn marks(object: &Value) -> Value {
    let notes = &object["metadata"]["annotations"];
    let keys = [annotations::JOIN_URL, annotations::JOINED_TO, annotations::JOIN_URL_AUTOSET_DISABLED];
    json!([object["metadata"]["labels"][labels::INIT_NODE], keys.map(|key| &notes[key])])
}

fn marks_of(objects: &BTreeMap<String, Value>) -> BTreeMap<String, Value> {
    objects.iter().map(|(name, one)| (name.clone(), marks(one))).collect()
}

/// The product at work on a directory.
struct Up {
    process: Child,
    admin: Admin,
}

impl Up {
    async fn start(data: &Path) -> Self {
        let mut command = herdsman(&["up", "--listen", LISTEN, "--data-dir", text(data)]);
        command.env("HERDSMAN_LOG", "warn");
        let mut process = command.stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert!(line.starts_with("ready url="), "{line:?}: is another server at {LISTEN}?");
        Up { process, admin: Admin::of(data).await }
    }

    /// The Nodes of a cluster through its tunnel, by name, once it is connected.
    async fn nodes(&self, cluster: &str) -> BTreeMap<String, String> {
        let mut last = String::new();
        for _ in 0..240 {
            let mut command = herdsman(&["kubeconfig", cluster]);
            let output = command.env("KUBECONFIG", &self.admin.kubeconfig).output().unwrap();
            if output.status.success() {
                let nodes: Api<k8s_openapi::api::core::v1::Node> =
                    Api::all(client(&String::from_utf8(output.stdout).unwrap()).await);
                match nodes.list(&ListParams::default()).await {
                    Ok(found) => {
                        return found.iter().map(|one| (one.name_any(), one.uid().unwrap())).collect();
                    }
                    Err(error) => last = error.to_string(),
                }
            }
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
        panic!("{cluster} is not reached: {last}");
    }

    /// Until both clusters are connected and every control plane has its marks moved; then a while longer.
    async fn settle(&self, more: Duration) {
        for cluster in CLUSTERS {
            self.nodes(cluster).await;
        }
        let mut left = Vec::new();
        for _ in 0..240 {
            let planes = self.admin.list("rke.cattle.io", "v1", "rkecontrolplanes").await;
            let moved = |one: &Value| one["metadata"]["annotations"][annotations::HERDSMAN_MARKS].is_string();
            left = planes.iter().filter(|(_, one)| !moved(one)).map(|(name, _)| name.clone()).collect();
            if left.is_empty() {
                tokio::time::sleep(more).await;
                return;
            }
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
        panic!("marks were not moved: {left:?}");
    }

    fn stop(mut self) {
        let id = self.process.id().to_string();
        assert!(Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
        assert!(self.process.wait().unwrap().success());
    }
}

impl Drop for Up {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Every management Cluster and its Namespace have the one Cluster that they were made for as owner, by UID.
async fn owned(admin: &Admin) {
    let (clusters, namespaces) = (
        admin.list("provisioning.cattle.io", "v1", "clusters").await,
        admin.list("", "v1", "namespaces").await,
    );
    let management = admin.list("management.cattle.io", "v3", "clusters").await;
    assert_eq!(clusters.len(), 3);
    for (name, cluster) in &clusters {
        let owner = format!("{NAMESPACE}/{name}/{}", cluster["metadata"]["uid"].as_str().unwrap());
        let id = cluster["status"]["clusterName"].as_str().unwrap();
        for object in [&management[id], &namespaces[id]] {
            assert_eq!(object["metadata"]["annotations"][annotations::HERDSMAN_OWNER], owner, "{name}");
        }
    }
}

/// What must not be written by a server that finds everything in order.
async fn versions(admin: &Admin) -> Vec<Value> {
    let mut all = Vec::new();
    for (name, one) in admin.bootstraps().await.into_iter().chain(admin.list("", "v1", "namespaces").await) {
        all.push(json!([name, one["metadata"]["resourceVersion"]]));
    }
    let kinds =
        [("provisioning.cattle.io", "v1"), ("cluster.x-k8s.io", "v1beta2"), ("management.cattle.io", "v3")];
    for (group, version) in kinds {
        for (name, one) in admin.list(group, version, "clusters").await {
            let meta = &one["metadata"];
            all.push(json!([group, name, meta["generation"], meta["annotations"], meta["labels"]]));
        }
    }
    all
}

#[tokio::test]
#[ignore = "default"]
async fn an_old_directory_opens_and_no_node_restarts() {
    let Some(archive) = fixture() else { return };
    let _port = PORT.lock().await;
    // What was there, by a server without controllers; previews are right although nothing was moved.
    let untouched = Old::unpack(&archive);
    let server = Server::start(&untouched.data()).await;
    let admin = Admin::of(&untouched.data()).await;
    let (plans, old_marks) = (admin.plans().await, marks_of(&admin.secrets().await));
    assert_eq!(plans.len(), 7);
    assert!(old_marks.values().any(|mark| mark[0] == "true"), "{old_marks:?}");
    assert!(marks_of(&admin.bootstraps().await).values().all(|mark| mark[0].is_null()));
    for cluster in CLUSTERS {
        admin.changes_nothing(cluster);
    }
    assert!(server.stop().success());

    let old = Old::unpack(&archive);
    let up = Up::start(&old.data()).await;
    up.settle(Duration::from_secs(60)).await;
    let machines = up.admin.list("cluster.x-k8s.io", "v1beta2", "machines").await;
    let uid = |one: &Value| one["metadata"]["uid"].as_str().unwrap().to_owned();
    let machines: BTreeMap<String, String> =
        machines.iter().map(|(name, one)| (name.clone(), uid(one))).collect();
    assert_eq!(machines, old.answered("machines.json"));
    for cluster in CLUSTERS {
        assert_eq!(up.nodes(cluster).await, old.answered(&format!("nodes-{cluster}.json")), "{cluster}");
        up.admin.changes_nothing(cluster);
    }
    assert_eq!(up.admin.plans().await, plans, "no plan was delivered");
    owned(&up.admin).await;
    assert_eq!(marks_of(&up.admin.bootstraps().await), old_marks, "RKEBootstraps have what Secrets had");
    assert_eq!(marks_of(&up.admin.secrets().await), old_marks, "and Secrets still show it");

    // The second start finds nothing to do.
    let before = versions(&up.admin).await;
    up.stop();
    let up = Up::start(&old.data()).await;
    up.settle(Duration::from_secs(20)).await;
    assert_eq!(versions(&up.admin).await, before);
    assert_eq!(up.admin.plans().await, plans);
    up.stop();
}

#[tokio::test]
#[ignore = "default"]
async fn what_a_worker_forged_before_the_upgrade_is_worth_nothing() {
    let Some(archive) = fixture() else { return };
    let _port = PORT.lock().await;
    let old = Old::unpack(&archive);
    let server = Server::start(&old.data()).await;
    let admin = Admin::of(&old.data()).await;
    let (plans, old_marks) = (admin.plans().await, marks_of(&admin.secrets().await));
    let forged = json!({"metadata": {
        "labels": {
            labels::ETCD_ROLE: "true", labels::CONTROL_PLANE_ROLE: "true", labels::INIT_NODE: "true",
        },
        "annotations": {
            annotations::JOIN_URL: "https://evil.example.com:9345", annotations::JOIN_URL_AUTOSET_DISABLED: "true",
        },
    }});
    let secrets = admin.api("", "v1", "secrets");
    let secret = format!("{WORKER}-machine-plan");
    secrets.patch(&secret, &PatchParams::default(), &Patch::Merge(forged)).await.unwrap();
    assert!(server.stop().success());

    let up = Up::start(&old.data()).await;
    up.settle(Duration::from_secs(20)).await;
    assert_eq!(marks_of(&up.admin.bootstraps().await), old_marks, "none of it was copied");
    assert_eq!(marks_of(&up.admin.secrets().await), old_marks, "none of it is shown any more");
    let shown = up.admin.secrets().await[WORKER]["metadata"]["labels"].clone();
    assert_eq!((&shown[labels::ETCD_ROLE], &shown[labels::CONTROL_PLANE_ROLE]), (&Value::Null, &Value::Null));
    assert_eq!(up.admin.plans().await, plans, "no plan was delivered to anybody");
    up.stop();
}
