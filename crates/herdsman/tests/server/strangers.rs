//! Anybody who reaches the webhooks' port of `herdsman server`, and says to be an administrator.

use std::io::Write as _;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject, ListParams, PostParams};
use serde_json::{Value, json};

use crate::program::{HERDSMAN, Running, client};

/// What must be in no answer.
const CANARY: &str = "canary-7d1f";

/// An address that nobody has just now.
fn free() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

/// Sends a review; gives the code of the answer, and the answer.
fn post(at: SocketAddr, path: &str, review: &Value, further: &[&str]) -> (String, String) {
    let mut curl = Command::new("curl");
    curl.args(["-sk", "--max-time", "20", "-w", "\n%{http_code}", "-H", "content-type: application/json"]);
    curl.args(["--data-binary", "@-"]).args(further).arg(format!("https://{at}{path}"));
    let mut child = curl.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(review.to_string().as_bytes()).unwrap();
    let output = String::from_utf8(child.wait_with_output().unwrap().stdout).unwrap();
    let (body, code) = output.rsplit_once('\n').unwrap();
    (code.to_owned(), body.to_owned())
}

fn resource(group: &str, version: &str, kind: &str, plural: &str) -> ApiResource {
    let api_version = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
    ApiResource {
        group: group.into(),
        version: version.into(),
        api_version,
        kind: kind.into(),
        plural: plural.into(),
    }
}

/// What is there of the kinds that reviews are about, each with its version.
async fn inventory(client: &Client) -> Vec<String> {
    let mut all = Vec::new();
    for kind in [
        resource("", "v1", "Secret", "secrets"),
        resource("provisioning.cattle.io", "v1", "Cluster", "clusters"),
        resource("cluster.x-k8s.io", "v1beta2", "MachineDeployment", "machinedeployments"),
    ] {
        let found: Api<DynamicObject> = Api::namespaced_with(client.clone(), "default", &kind);
        for object in found.list(&ListParams::default()).await.unwrap() {
            let meta = object.metadata;
            all.push(format!("{} {:?} {:?}", kind.kind, meta.name, meta.resource_version));
        }
    }
    all
}

async fn create(client: &Client, kind: &ApiResource, namespaced: bool, mut document: Value) {
    document["apiVersion"] = json!(kind.api_version);
    document["kind"] = json!(kind.kind);
    let api: Api<DynamicObject> = match namespaced {
        true => Api::namespaced_with(client.clone(), "default", kind),
        false => Api::all_with(client.clone(), kind),
    };
    api.create(&PostParams::default(), &serde_json::from_value(document).unwrap()).await.unwrap();
}

/// A cluster, a Secret and a template that somebody would like to know of or change.
async fn plant(client: &Client) {
    let secret =
        json!({"metadata": {"name": "credential"}, "type": "Opaque", "stringData": {"password": CANARY}});
    create(client, &resource("", "v1", "Secret", "secrets"), true, secret).await;
    let template = json!({"metadata": {"name": "open"}, "description": CANARY, "configuration": {"exemptions": {"usernames": [CANARY]}}});
    let kind = resource(
        "management.cattle.io",
        "v3",
        "PodSecurityAdmissionConfigurationTemplate",
        "podsecurityadmissionconfigurationtemplates",
    );
    create(client, &kind, false, template).await;
    let cluster = json!({"metadata": {"name": "prod"}, "spec": {
        "kubernetesVersion": "v1.34.1+k3s1", "rkeConfig": {"machineGlobalConfig": {"token": CANARY}}
    }});
    create(client, &resource("provisioning.cattle.io", "v1", "Cluster", "clusters"), true, cluster).await;
    let deployment = json!({
        "metadata": {"name": "prod-workers", "labels": {"rke.cattle.io/rke-machine-pool-name": "workers"}},
        "spec": {"clusterName": "prod", "replicas": 1, "selector": {}, "template": {"spec": {
            "clusterName": "prod", "bootstrap": {"dataSecretName": "s"},
            "infrastructureRef": {"apiGroup": "example.com", "kind": "FooMachineTemplate", "name": "t"}
        }}}
    });
    let kind = resource("cluster.x-k8s.io", "v1beta2", "MachineDeployment", "machinedeployments");
    create(client, &kind, true, deployment).await;
}

/// Reviews that an administrator's writes would make, of everything that is asked about.
fn forged() -> Vec<(String, Value)> {
    let cluster = |template: &str| {
        json!({
            "apiVersion": "provisioning.cattle.io/v1", "kind": "Cluster",
            "metadata": {"name": "prod", "namespace": "default", "uid": "u"},
            "spec": {
                "kubernetesVersion": "v1.34.1+k3s1", "cloudCredentialSecretName": "credential",
                "defaultPodSecurityAdmissionConfigurationTemplateName": template, "rkeConfig": {}
            }
        })
    };
    let scale = json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "spec": {"replicas": 9}});
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "type": "rke.cattle.io/machine-plan",
        "metadata": {"name": "credential", "namespace": "default"}, "data": {"plan": "bm9uc2Vuc2U="}
    });
    let driver =
        json!({"apiVersion": "management.cattle.io/v3", "kind": "NodeDriver", "spec": {"active": false}});
    let objects = [
        ("clusters.provisioning.cattle.io", cluster("open"), ""),
        ("clusters.provisioning.cattle.io", cluster(""), ""),
        ("machinedeployments-scale.cluster.x-k8s.io", scale, "scale"),
        ("secrets.rke.cattle.io", secret, ""),
        ("nodedrivers.management.cattle.io", driver, ""),
    ];
    let mut all = Vec::new();
    for (hook, object, part) in objects {
        for (asked, operation) in
            [("mutate", "CREATE"), ("mutate", "UPDATE"), ("validate", "UPDATE"), ("validate", "DELETE")]
        {
            for dry_run in [false, true] {
                let name = if part.is_empty() { "prod" } else { "prod-workers" };
                let review = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
                    "uid": "1", "operation": operation, "namespace": "default", "name": name, "subResource": part,
                    "userInfo": {"username": "admin", "groups": ["system:masters"]}, "dryRun": dry_run,
                    "object": object, "oldObject": object
                }});
                all.push((format!("/{asked}/{hook}"), review));
            }
        }
    }
    all
}

struct World {
    client: Client,
    at: SocketAddr,
    server: Running,
    _apiserver: Running,
    _directory: tempfile::TempDir,
}

async fn start(further: &[&str]) -> World {
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("api");
    let apiserver =
        Running::start(&["apiserver", "--listen", "127.0.0.1:0", "--data-dir", data.to_str().unwrap()]);
    let kubeconfig = apiserver.kubeconfig.clone();
    let installed = Command::new(HERDSMAN).args(["crds", "install"]).env("KUBECONFIG", &kubeconfig).output();
    assert!(installed.unwrap().status.success());
    let at = free();
    let listen = at.to_string();
    let mut arguments = vec!["server", "--controllers", "capi", "--capi", "own", "--kubeconfig", &kubeconfig];
    arguments.extend(["--webhook-listen", &listen]);
    arguments.extend(further);
    let server = Running::start(&arguments);
    let client = client(Path::new(&kubeconfig)).await;
    World { client, at, server, _apiserver: apiserver, _directory: directory }
}

#[tokio::test]
async fn reviews_of_strangers_write_nothing_and_tell_nothing() {
    let world = start(&[]).await;
    plant(&world.client).await;
    let before = inventory(&world.client).await;
    let mut answered = 0;
    for (path, review) in forged() {
        let (code, answer) = post(world.at, &path, &review, &[]);
        assert!(code == "200" || code == "404", "{path}: {code} {answer}");
        assert!(!answer.contains(CANARY), "{path}: {answer}");
        answered += u32::from(code == "200");
    }
    assert!(answered > 20, "{answered}");
    assert_eq!(inventory(&world.client).await, before);

    // Connections that say nothing keep nobody out, and do not end the server.
    let idle: Vec<TcpStream> = (0..600).filter_map(|_| TcpStream::connect(world.at).ok()).collect();
    assert!(idle.len() > 128);
    tokio::time::sleep(Duration::from_millis(300)).await;
    drop(idle);
    tokio::time::sleep(Duration::from_millis(300)).await;
    let (code, answer) = post(world.at, "/healthz", &json!({}), &[]);
    assert_eq!((code.as_str(), answer.as_str()), ("200", "ok"));
    assert_eq!(world.server.stop(), Some(0));
}

/// An authority and a certificate of it, as PEM.
fn issue(directory: &Path) -> (String, String, String) {
    let key = rcgen::KeyPair::generate().unwrap();
    let mut authority = rcgen::CertificateParams::new(Vec::<String>::new()).unwrap();
    authority.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let certificate = authority.self_signed(&key).unwrap();
    let issuer = rcgen::Issuer::new(authority, key);
    let own = rcgen::KeyPair::generate().unwrap();
    let mut client = rcgen::CertificateParams::new(vec!["kube-apiserver".to_owned()]).unwrap();
    client.extended_key_usages = vec![rcgen::ExtendedKeyUsagePurpose::ClientAuth];
    let client = client.signed_by(&own, &issuer).unwrap();
    let write = |name: &str, text: String| {
        let path = directory.join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    (
        write("ca.crt", certificate.pem()),
        write("client.crt", client.pem()),
        write("client.key", own.serialize_pem()),
    )
}

#[tokio::test]
async fn with_a_client_authority_only_its_certificates_are_answered() {
    let directory = tempfile::tempdir().unwrap();
    let (authority, certificate, key) = issue(directory.path());
    let world = start(&["--webhook-client-ca", &authority]).await;
    let path = "/validate-cluster-x-k8s-io-v1beta2-machine";
    let review = json!({"request": {"uid": "1", "operation": "CREATE", "object": {}}});
    let (code, answer) = post(world.at, path, &review, &[]);
    assert_eq!(code, "401", "{answer}");
    assert!(answer.contains("--webhook-client-ca"), "{answer}");
    assert_eq!(post(world.at, "/livez", &json!({}), &[]).0, "200", "probes show none");
    let (code, answer) = post(world.at, path, &review, &["--cert", &certificate, "--key", &key]);
    assert_eq!(code, "200", "{answer}");

    let other = tempfile::tempdir().unwrap();
    let (_, certificate, key) = issue(other.path());
    let (code, _) = post(world.at, path, &review, &["--cert", &certificate, "--key", &key]);
    assert_eq!(code, "000", "the handshake fails");
    assert_eq!(world.server.stop(), Some(0));

    let nothing = directory.path().join("empty.crt");
    std::fs::write(&nothing, "").unwrap();
    let mut wrong = Command::new(HERDSMAN);
    wrong.args(["server", "--controllers", "capi", "--webhook-listen", "127.0.0.1:0", "--webhook-client-ca"]);
    let output = wrong.arg(&nothing).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("no certificates in PEM format"));
}
