//! The whole product where somebody else runs Cluster API's controllers: upstream's own program, with upstream's CRDs, webhooks
//! and rights.

use std::fs::File;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rcgen::{CertifiedKey, generate_simple_self_signed};
use serde_json::{Value, json};

use crate::balancer::free;
use crate::management::{Management, manifest};
use crate::whole;

const HOME: &str = "capi-system";

/// Everything that both accounts ask for.
const AUDIT: &str = "apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
  users: ['system:serviceaccount:cattle-system:herdsman', 'system:serviceaccount:capi-system:capi-manager']
- {level: None}
";

/// Upstream's program at work. It ends with this value.
struct Upstream(Child);

impl Drop for Upstream {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Upstream {
    /// Puts in place what `clusterctl init` would, and starts the program with the account that upstream's manifests make.
    async fn start(management: &Management, directory: &Path) -> Self {
        let at = free();
        let CertifiedKey { cert, signing_key } =
            generate_simple_self_signed(vec![at.ip().to_string()]).unwrap();
        let certificates = directory.join("webhook");
        std::fs::create_dir(&certificates).unwrap();
        std::fs::write(certificates.join("tls.crt"), cert.pem()).unwrap();
        std::fs::write(certificates.join("tls.key"), signing_key.serialize_pem()).unwrap();

        install(management, directory, &Webhook { at, authority: STANDARD.encode(cert.pem()) });
        let account = management.account(HOME, "capi-manager", &directory.join("webhook"));
        let program = peers::Peer::CapiManager.provide().unwrap().path.join("core");
        let mut command = Command::new(program);
        command.arg("--kubeconfig").arg(account).arg("--webhook-cert-dir").arg(certificates);
        command.arg(format!("--webhook-port={}", at.port()));
        command.args([format!("--health-addr={}", free()), format!("--diagnostics-address={}", free())]);
        let log = Path::new(env!("CARGO_TARGET_TMPDIR")).join("upstream-manager.log");
        let upstream = Upstream(command.stderr(File::create(log).unwrap()).spawn().unwrap());
        for _ in 0..600 {
            if tokio::net::TcpStream::connect(at).await.is_ok() {
                return upstream;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        panic!("upstream's webhooks never listen");
    }
}

/// Where upstream's webhooks answer.
struct Webhook {
    at: SocketAddr,
    authority: String,
}

impl Webhook {
    /// What the manifests say of a Service, for a program that is no pod.
    fn place(&self, client_config: &mut Value) {
        let path = client_config["service"]["path"].as_str().unwrap();
        *client_config = json!({"url": format!("https://{}{path}", self.at), "caBundle": self.authority});
    }
}

fn install(management: &Management, directory: &Path, webhook: &Webhook) {
    let config = peers::go_module("capi-manager").unwrap().join("core/config");
    management.kubectl(&["create", "namespace", HOME]);
    management.kubectl(&["create", "serviceaccount", "capi-manager", "-n", HOME]);
    let mut all = Vec::new();
    for file in std::fs::read_dir(config.join("crd/bases")).unwrap() {
        for mut definition in documents(&file.unwrap().path()) {
            let mut to = json!({"service": {"path": "/convert"}});
            webhook.place(&mut to);
            let how = json!({"conversionReviewVersions": ["v1"], "clientConfig": to});
            definition["spec"]["conversion"] = json!({"strategy": "Webhook", "webhook": how});
            definition["metadata"]["labels"] = json!({"cluster.x-k8s.io/provider": "cluster-api"});
            all.push(definition);
        }
    }
    for mut configuration in documents(&config.join("webhook/manifests.yaml")) {
        let name = format!("capi-{}", configuration["metadata"]["name"].as_str().unwrap());
        configuration["metadata"]["name"] = name.into();
        for one in configuration["webhooks"].as_array_mut().unwrap() {
            webhook.place(&mut one["clientConfig"]);
        }
        all.push(configuration);
    }
    for mut role in documents(&config.join("rbac/role.yaml")) {
        if role["kind"] == "ClusterRole" {
            role["metadata"]["labels"] = json!({"cluster.x-k8s.io/aggregate-to-manager": "true"});
        }
        role["metadata"]["namespace"] = HOME.into();
        all.push(role);
    }
    all.extend(documents(&config.join("rbac/aggregated_role.yaml")));
    let list = json!({"apiVersion": "v1", "kind": "List", "items": all});
    management.apply(&list.to_string(), directory, &["--server-side"]);
    let (role, account) =
        ("--clusterrole=aggregated-manager-role", "--serviceaccount=capi-system:capi-manager");
    management.kubectl(&["create", "clusterrolebinding", "capi-manager", role, account]);
}

fn documents(file: &PathBuf) -> Vec<Value> {
    let text = std::fs::read_to_string(file).unwrap();
    serde_saphyr::from_multiple(&text).unwrap()
}

/// Where the API server converts a kind of Cluster API's, and who is asked about it.
fn asked(management: &Management) -> [String; 2] {
    let path = "jsonpath={.spec.conversion}";
    let conversion = management.kubectl(&["get", "crd", "machines.cluster.x-k8s.io", "-o", path]);
    let webhooks = management.kubectl(&["get", "validatingwebhookconfigurations", "-o", "name"]);
    [conversion, webhooks]
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "peers: kubernetes, etcd, capi-manager"]
async fn upstreams_controllers_do_their_part() {
    let directory = tempfile::tempdir().unwrap();
    let management = Management::start(peers::Kubernetes::options().audit(AUDIT)).await;
    let _upstream = Upstream::start(&management, directory.path()).await;
    let account = whole::account(&management, directory.path());
    let before = asked(&management);
    let server = whole::server(&account, directory.path(), &["--capi", "external"]);
    whole::our_kinds(&management).await;
    management.apply(&manifest(1), directory.path(), &[]);
    management.until_ready("demo", 2).await;
    management.apply(&manifest(2), directory.path(), &[]);
    management.until_ready("demo", 3).await;
    whole::changes(&management, directory.path()).await;
    management.delete("demo").await;

    let [conversion, webhooks] = asked(&management);
    assert_eq!(conversion, before[0], "upstream's CRDs are upstream's");
    assert!(webhooks.contains("/herdsman\n") && !webhooks.contains("herdsman-capi"), "{webhooks}");
    assert_eq!(server.stop(), Some(0));
    let refused = management.forbidden();
    assert!(refused.is_empty(), "deploy/chart/templates/rbac.yaml lacks: {refused:#?}");
}
