//! The whole product on a real Kubernetes, with exactly the rights that `deploy/` gives it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use kube::Api;
use kube::api::{DynamicObject, PostParams};
use kube::config::Kubeconfig;
use serde_json::json;

use crate::management::{Management, manifest};
use crate::program::{Running, client, of, says};

/// Everything that our account asks for.
const AUDIT: &str = "apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- {level: Metadata, users: ['system:serviceaccount:cattle-system:herdsman']}
- {level: None}
";

/// A kubeconfig of the account that `deploy/kubernetes/herdsman.yaml` makes.
pub(crate) fn account(management: &Management, directory: &Path) -> PathBuf {
    management.kubectl(&["create", "namespace", "cattle-system"]);
    management.apply(include_str!("../../../../deploy/kubernetes/herdsman.yaml"), directory, &[]);
    management.account("cattle-system", "herdsman", directory)
}

/// The whole product, with the rights of an account.
pub(crate) fn server(account: &Path, directory: &Path, more: &[&str]) -> Running {
    let (account, data) = (account.to_str().unwrap(), directory.join("data"));
    let listen = ["--listen", "127.0.0.1:0", "--webhook-listen", "127.0.0.1:0"];
    let place = ["--kubeconfig", account, "--data-dir", data.to_str().unwrap()];
    Running::start(&[&["server"], &listen[..], &place, more].concat())
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "peers: kubernetes, etcd"]
async fn a_cluster_lives_and_dies_by_the_rights_of_the_deployed_account() {
    let directory = tempfile::tempdir().unwrap();
    let management = Management::start(peers::Kubernetes::options().audit(AUDIT)).await;
    let account = account(&management, directory.path());
    let server = server(&account, directory.path(), &[]);

    our_kinds(&management).await;
    management.apply(&manifest(1), directory.path(), &[]);
    management.until_ready("demo", 2).await;
    // Whoever still speaks v1beta1 is answered by conversion.
    let old = management.list("cluster.x-k8s.io", "v1beta1", "machines").await;
    assert_eq!(old.len(), 2);
    management.apply(&manifest(2), directory.path(), &[]);
    management.until_ready("demo", 3).await;
    speaks(&management, &server).await;
    authority(&management, &server).await;
    changes(&management, directory.path()).await;

    management.delete("demo").await;
    assert_eq!(server.stop(), Some(0));
    let refused = management.forbidden();
    assert!(refused.is_empty(), "deploy/chart/templates/rbac.yaml lacks: {refused:#?}");
}

/// A label reaches the machines that are there, a field of the driver makes others; a pool shrinks.
pub(crate) async fn changes(management: &Management, directory: &Path) {
    let before = management.machines("demo").await;
    let labelled = manifest(2)
        .replace("{name: workers, quantity: 2,", "{name: workers, quantity: 2, labels: {zone: a},");
    management.apply(&labelled, directory, &[]);
    let zone = async || {
        let machines = management.list("cluster.x-k8s.io", "v1beta2", "machines").await;
        let labels = machines.iter().filter_map(|one| one.metadata.labels.as_ref()?.get("zone"));
        labels.filter(|zone| *zone == "a").count()
    };
    for second in 0.. {
        if zone().await == 2 {
            break;
        }
        assert!(second < 120, "the label does not reach the machines");
        tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    }
    management.until_ready("demo", 3).await;
    assert_eq!(management.machines("demo").await, before, "a label replaces nobody");

    management.apply(&labelled.replace("2048", "4096"), directory, &[]);
    for second in 0.. {
        if management.machines("demo").await.is_disjoint(&before) {
            break;
        }
        assert!(second < 300, "the driver's field does not make other machines");
        tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    }
    management.until_ready("demo", 3).await;
    let fewer = labelled.replace("2048", "4096").replace("quantity: 2", "quantity: 1");
    management.apply(&fewer, directory, &[]);
    management.until_ready("demo", 2).await;
}

/// A new authority takes over, and the old one is forgotten: nodes and webhooks follow, nothing is replaced.
async fn authority(management: &Management, server: &Running) {
    let (machines, nodes) = (management.machines("demo").await, management.nodes("demo").await);
    let said = |word: &str| {
        let kubeconfig = management.kubeconfig.to_str().unwrap();
        says(&management.kubeconfig, &["certificates", word, "--kubeconfig", kubeconfig])
    };
    let vouch = || {
        let output =
            std::process::Command::new("curl").arg("-sk").arg(format!("{}/cacerts", server.url)).output();
        String::from_utf8(output.unwrap().stdout).unwrap().matches("BEGIN CERTIFICATE").count()
    };
    assert_eq!(vouch(), 1);
    for (word, count) in [("rotate-ca", 2), ("finish", 1)] {
        said(word);
        for second in 0.. {
            if vouch() == count && said("status").contains("nodes know=3 of=3") {
                break;
            }
            assert!(second < 120, "{word}: {}", said("status"));
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    }
    assert_eq!(management.nodes("demo").await, nodes);
    assert_eq!(management.machines("demo").await, machines);
    our_kinds(management).await;
}

/// The one port answers as documented: by the rights of whoever asks.
async fn speaks(management: &Management, server: &Running) {
    let ask = |path: &str, token: Option<&str>| {
        let mut curl = std::process::Command::new("curl");
        curl.args(["-sk", "-w", "\n%{http_code}"]).arg(format!("{}{path}", server.url));
        if let Some(token) = token {
            curl.arg("-H").arg(format!("authorization: Bearer {token}"));
        }
        let output = curl.output().unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        let (body, code) = said.rsplit_once('\n').unwrap();
        (code.to_owned(), body.to_owned())
    };
    for path in ["/healthz", "/livez", "/readyz", "/version", "/cacerts", "/system-agent-install.sh"] {
        assert_eq!(ask(path, None).0, "200", "{path}");
    }
    assert_eq!(ask("/metrics", None).0, "401");
    management.kubectl(&["create", "serviceaccount", "reader", "-n", "cattle-system"]);
    let reader = management.kubectl(&["create", "token", "reader", "-n", "cattle-system"]);
    assert_eq!(ask("/metrics", Some(reader.trim())).0, "403");
    management.kubectl(&["create", "clusterrole", "metrics", "--verb=get", "--non-resource-url=/metrics"]);
    let to = "--serviceaccount=cattle-system:reader";
    management.kubectl(&["create", "clusterrolebinding", "metrics", "--clusterrole=metrics", to]);
    let (code, metrics) = ask("/metrics", Some(reader.trim()));
    assert_eq!(code, "200");
    assert!(metrics.contains("herdsman_tunnel_sessions") && !metrics.contains("apiserver_request_total"));
    // The Kubernetes API itself, as whoever asks.
    assert_eq!(ask("/api/v1/namespaces/fleet-default/secrets", Some(reader.trim())).0, "403");
    let cluster = management.get("provisioning.cattle.io", "v1", "clusters", "demo").await.unwrap();
    let id = cluster["status"]["clusterName"].as_str().unwrap();
    assert_eq!(ask(&format!("/k8s/clusters/{id}/api/v1/nodes"), Some(reader.trim())).0, "403");
    let owner = ["create", "clusterrole", "owner", "--verb=own", "--resource=clusters.management.cattle.io"];
    management.kubectl(&owner);
    management.kubectl(&["create", "clusterrolebinding", "owner", "--clusterrole=owner", to]);
    let (code, nodes) = ask(&format!("/k8s/clusters/{id}/api/v1/nodes"), Some(reader.trim()));
    assert_eq!(code, "200", "{nodes}");
    assert!(client(&management.kubeconfig).await.apiserver_version().await.is_ok());
}

/// The API server asks about clusters and what users write beside them, as soon as it has been told to. Nothing is kept.
pub(crate) async fn our_kinds(management: &Management) {
    let dry_run = PostParams { dry_run: true, ..PostParams::default() };
    let api = |group: &str, version: &str, plural: &str| management.api(group, version, plural);
    let clusters = api("provisioning.cattle.io", "v1", "clusters");
    let cluster = |name: &str, version: &str| -> DynamicObject {
        let document = json!({
            "apiVersion": "provisioning.cattle.io/v1", "kind": "Cluster", "metadata": {"name": name},
            "spec": {"kubernetesVersion": version, "rkeConfig": {}}
        });
        serde_json::from_value(document).unwrap()
    };
    let mut marks = Default::default();
    for _ in 0..120 {
        let made = clusters.create(&dry_run, &cluster("prod", "v1.34.1+k3s1")).await;
        marks = made.ok().and_then(|made| made.metadata.annotations).unwrap_or_default();
        if marks.contains_key("field.cattle.io/creatorId") {
            break;
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    assert!(marks.contains_key("field.cattle.io/creatorId"), "{marks:?}");
    let refused = clusters.create(&dry_run, &cluster("bad", "newest")).await.unwrap_err();
    assert!(refused.to_string().contains("spec.kubernetesVersion"), "{refused}");
    let secret = |name: &str, plan: &str| -> DynamicObject {
        let document = json!({
            "apiVersion": "v1", "kind": "Secret", "type": "rke.cattle.io/machine-plan",
            "metadata": {"name": name}, "stringData": {"plan": plan}
        });
        serde_json::from_value(document).unwrap()
    };
    let secrets = api("", "v1", "secrets");
    secrets.create(&dry_run, &secret("good", "{}")).await.unwrap();
    let refused = secrets.create(&dry_run, &secret("bad", "nonsense")).await.unwrap_err();
    assert!(refused.to_string().contains("data[plan]"), "{refused}");
    agents(management, &secret("m-machine-plan", "{}")).await;
}

/// An agent's account may change its report, and nothing else of its plan Secret.
async fn agents(management: &Management, plan: &DynamicObject) {
    let secrets = management.api("", "v1", "secrets");
    let plan = secrets.create(&PostParams::default(), plan).await.unwrap();
    let name = plan.metadata.name.clone().unwrap();
    let account = format!("system:serviceaccount:fleet-default:{name}");
    let named = ["-n", "fleet-default", "m-machine-plan"];
    let role = ["--verb=get,update", "--resource=secrets", "--resource-name=m-machine-plan"];
    management.kubectl(&[&["create", "role"][..], &named, &role].concat());
    let subject = format!("--user={account}");
    management
        .kubectl(&[&["create", "rolebinding"][..], &named, &["--role=m-machine-plan", &subject]].concat());
    let mut kubeconfig = Kubeconfig::read_from(&management.kubeconfig).unwrap();
    for user in kubeconfig.auth_infos.iter_mut().filter_map(|user| user.auth_info.as_mut()) {
        user.impersonate = Some(account.clone());
    }
    let own = of(kubeconfig).await;
    let own: Api<k8s_openapi::api::core::v1::Secret> = Api::namespaced(own, "fleet-default");
    let dry_run = PostParams { dry_run: true, ..PostParams::default() };
    let mut forged = own.get(&name).await.unwrap();
    forged.metadata.labels = Some([("rke.cattle.io/etcd-role".to_owned(), "true".to_owned())].into());
    let refused = own.replace(&name, &dry_run, &forged).await.unwrap_err();
    assert!(refused.to_string().contains("metadata.labels[rke.cattle.io/etcd-role]"), "{refused}");
    let mut report = own.get(&name).await.unwrap();
    let said = k8s_openapi::ByteString(b"a".to_vec());
    report.data.get_or_insert_default().insert("applied-output".into(), said);
    own.replace(&name, &dry_run, &report).await.unwrap();
    for kind in ["rolebinding", "role", "secret"] {
        management.kubectl(&[&["delete", kind][..], &named].concat());
    }
}
