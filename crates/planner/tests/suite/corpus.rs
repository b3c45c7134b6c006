//! Golden plans: what each epoch renders, to the byte. A file that is there is never rewritten: a change of rendering
//! needs a new epoch. `UPDATE_GOLDEN=1` writes those that are missing.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use api::catalogue::{annotations, labels, secrets::types};
use planner::{
    Address, Bootstrap, Cluster, Driver, DriverAddresses, Epoch, Machine, MachineName, Object, Placement,
    Releases, render,
};
use serde_json::json;

use crate::spec;

struct Case {
    name: &'static str,
    cluster: Cluster,
    machine: Machine,
    placement: Placement,
}

const JOIN: &str = "https://10.0.0.1:9345";

fn case(name: &'static str, version: &str, roles: &[&str], init: bool) -> Case {
    let mut cluster = spec::cluster("prod", version);
    cluster.tokens = Some(spec::tokens());
    let words = spec::role_labels("prod", name, roles);
    let bootstrap = Bootstrap { labels: words.clone(), ..Bootstrap::default() };
    let machine = Machine {
        id: format!("uid-{name}"),
        labels: words,
        infrastructure_ready: true,
        bootstrap,
        ..Machine::default()
    };
    let server = (!init).then(|| JOIN.to_owned());
    Case { name, cluster, machine, placement: Placement { init, server, fresh: init } }
}

impl Case {
    fn set(mut self, path: &str, value: serde_json::Value) -> Self {
        self.cluster.spec = spec::set(&self.cluster.spec, path, value);
        self
    }

    fn note(mut self, annotation: &str, value: &str) -> Self {
        self.machine.bootstrap.annotations.insert(annotation.into(), value.into());
        self
    }

    fn secret(mut self, name: &str, type_: &str, data: &[(&str, &str)]) -> Self {
        let data = data.iter().map(|(key, value)| ((*key).to_owned(), value.as_bytes().to_vec())).collect();
        let words = [annotations::AUTHORIZED_FOR_CLUSTERS, annotations::SECRET_AUTHORIZED_FOR_CLUSTER];
        let annotations = words.map(|word| (word.to_owned(), "other, prod".to_owned())).into();
        self.cluster.secrets.insert(name.into(), Object { type_: type_.into(), annotations, data });
        self
    }

    fn with(mut self, change: impl FnOnce(&mut Cluster, &mut Machine)) -> Self {
        change(&mut self.cluster, &mut self.machine);
        self
    }
}

const RKE2: &str = "v1.34.2+rke2r1";
const K3S: &str = "v1.34.2+k3s1";
const ALL: [&str; 3] = ["etcd", "control-plane", "worker"];

fn cases() -> Vec<Case> {
    let mut cases = roles();
    cases.extend(settings());
    cases.extend(places());
    cases
}

/// Roles and runtimes.
fn roles() -> Vec<Case> {
    vec![
        case("rke2-all-init", RKE2, &ALL, true),
        case("rke2-etcd-init", RKE2, &["etcd"], true),
        case("rke2-etcd-join", RKE2, &["etcd"], false),
        case("rke2-servers-join", RKE2, &["etcd", "control-plane"], false),
        case("rke2-control-plane", RKE2, &["control-plane"], false),
        case("rke2-worker", RKE2, &["worker"], false),
        case("rke2-windows-worker", RKE2, &["worker", "windows"], false),
        case("k3s-all-init", K3S, &ALL, true),
        case("k3s-etcd-init", K3S, &["etcd"], true),
        case("k3s-servers-join", K3S, &["etcd", "control-plane"], false),
        case("k3s-control-plane", K3S, &["control-plane"], false),
        case("k3s-worker", K3S, &["worker"], false),
    ]
}

/// What users set.
fn settings() -> Vec<Case> {
    let registries = json!({
        "mirrors": {"docker.io": {"endpoint": ["https://mirror.example.com"], "rewrite": {"^(.*)$": "proxy/$1"}}},
        "configs": {"mirror.example.com": {
            "authConfigSecretName": "pull", "tlsSecretName": "client", "caBundle": "Q0E=", "insecureSkipVerify": true,
        }},
    });
    let selected = json!([
        {"machineLabelSelector": {"matchLabels": {"tier": "gold"}}, "config": {"kubelet-arg": ["max-pods=200"], "cni": "cilium"}},
        {"config": {"protect-kernel-defaults": "true", "etcd-expose-metrics": true}},
    ]);
    let files = json!([{"fileSources": [{"secret": {"name": "files", "defaultPermissions": "644", "items": [
        {"key": "motd", "path": "/etc/motd"},
        {"key": "policy", "path": "/etc/rancher/policy.yaml", "permissions": "600", "dynamic": true},
    ]}}]}]);
    let s3 = json!({
        "snapshotScheduleCron": "0 */5 * * *", "snapshotRetention": 5,
        "s3": {"bucket": "snapshots", "folder": "prod", "cloudCredentialName": "cattle-global-data:s3", "retention": 7,
               "endpoint": "s3.example.com", "endpointCA": "Q0VSVA==", "skipSSLVerify": true},
    });
    vec![
        case("rke2-global-config", RKE2, &ALL, true).set("machineGlobalConfig", json!({
            "cni": ["multus", "calico"], "disable-kube-proxy": "true", "disable": ["rke2-ingress-nginx"], "garbage": 7,
            "nested": {"a": 1}, "server": "https://evil", "tls-san": "prod.example.com", "audit-policy-file": "rules: []\n",
            "kube-scheduler-arg": ["secure-port=11259"], "kube-controller-manager-arg": "tls-cert-file=/etc/kcm.crt",
            "service-cidr": "10.45.0.0/16,fd00::/112",
        })),
        case("rke2-selectors", RKE2, &["etcd", "control-plane"], false).set("machineSelectorConfig", selected)
            .with(|_, machine| { machine.labels.insert("tier".into(), "gold".into()); }),
        case("rke2-registries", RKE2, &["worker"], false).set("registries", registries)
            .secret("pull", types::BASIC_AUTH, &[("username", "u"), ("password", "correct-horse")])
            .secret("client", types::TLS, &[("tls.crt", "CERT"), ("tls.key", "PRIVATE-KEY")]),
        case("rke2-files", RKE2, &["worker"], false).set("machineSelectorFiles", files)
            .secret("files", "Opaque", &[("motd", "hello\n"), ("policy", "p: 1\n")]),
        case("rke2-s3", RKE2, &["etcd"], false).set("etcd", s3)
            .secret("cattle-global-data:s3", "Opaque", &[("s3credentialConfig-accessKey", "AKIA"),
                ("s3credentialConfig-secretKey", "very-secret-key"), ("s3credentialConfig-defaultRegion", "eu-1")]),
        case("rke2-charts", RKE2, &["control-plane"], false)
            .set("chartValues", json!({"rke2-calico": {"installation": {"mtu": 1400}}, "rke2-coredns": {"global": {"x": 1}}}))
            .set("additionalManifest", json!("kind: ConfigMap\n"))
            .set("localClusterAuthEndpoint", json!({"enabled": true})),
        case("rke2-proxy", RKE2, &["worker"], false).set("agentEnvVars", json!([
            {"name": "HTTPS_PROXY", "value": "http://proxy:3128"}, {"name": "NO_PROXY", "value": "10.0.0.0/8"}, {"name": "EMPTY"},
        ])),
        case("rke2-system-default-registry", RKE2, &["etcd", "control-plane"], false).with(|cluster, _| {
            cluster.settings.system_default_registry = "registry.example.com".into();
            cluster.settings.system_default_registry_auth = "pull".into();
        }).secret("pull", types::AUTH_CONFIG, &[("auth", "u:correct-horse")]),
        case("rke2-directories", RKE2, &ALL, true).set("dataDirectories", json!({
            "systemAgent": "/data/agent", "provisioning": "/data/capr", "k8sDistro": "/data/rke2",
        })).set("networking", json!({"stackPreference": "ipv6"})),
        case("rke2-pre-bootstrap", RKE2, &ALL, true).with(|cluster, _| cluster.pre_bootstrap = true),
        case("k3s-unmanaged", K3S, &ALL, true).set("unmanagedConfig", json!(true)),
    ]
}

/// Where machines come from, and what they are told.
fn places() -> Vec<Case> {
    let taints =
        r#"[{"key":"dedicated","value":"db","effect":"NoSchedule"},{"key":"bare","effect":"NoExecute"}]"#;
    let native = |cluster: &mut Cluster, machine: &mut Machine| {
        let _ = cluster;
        machine.infra.native = true;
        machine.infra.provider_id = "vsphere://42".into();
        machine.infra.addresses =
            [("InternalIP", "10.1.0.4"), ("ExternalIP", "203.0.113.4"), ("ExternalDNS", "a.example.com")]
                .map(|(kind, address)| Address { kind: kind.into(), address: address.into() })
                .into();
    };
    let driver = |name: &str| Driver {
        name: name.into(),
        saved: Some(DriverAddresses {
            external: "203.0.113.5".into(),
            internal: "10.1.0.5".into(),
            ipv6: "fd00::5".into(),
        }),
    };
    let external = json!({"cloud-provider-name": "external"});
    let in_tree =
        json!({"cloud-provider-name": "aws", "cloud-provider-config": "secret://fleet-default:cloud"});
    vec![
        case("k3s-custom-node", K3S, &["worker"], false)
            .note(annotations::LABELS, r#"{"foo":"bar","ball":"life"}"#).note(annotations::TAINTS, taints)
            .note(annotations::ADDRESS, "203.0.113.6").note(annotations::INTERNAL_ADDRESS, "10.1.0.6, 169.254.1.1")
            .with(|_, machine| { machine.bootstrap.labels.insert(labels::NODE_NAME.into(), "chosen".into()); }),
        case("rke2-driver", RKE2, &["etcd", "control-plane"], false).with(|_, machine| machine.infra.driver = Some(driver("amazonec2"))),
        case("rke2-driver-pod", RKE2, &["worker"], false).with(|_, machine| machine.infra.driver = Some(driver("pod"))),
        case("rke2-native", RKE2, &["etcd", "control-plane"], false).with(native),
        case("rke2-native-external-cloud", RKE2, &["worker"], false).with(native).set("machineGlobalConfig", external),
        case("rke2-in-tree-cloud", RKE2, &["control-plane"], false).set("machineGlobalConfig", in_tree)
            .secret("fleet-default:cloud", "Opaque", &[("credential", "[Global]\n")]),
        case("rke2-own-certificates", RKE2, &ALL, true)
            .secret("prod-ca", types::CAPI, &[("tls.crt", "CA"), ("tls.key", "CA-PRIVATE-KEY")])
            .secret("prod-etcd", types::CAPI, &[("tls.crt", "ETCD"), ("tls.key", "ETCD-PRIVATE-KEY")])
            .secret("prod-proxy", types::CAPI, &[("tls.crt", "PROXY"), ("tls.key", "PROXY-PRIVATE-KEY")])
            .secret("prod-sa", types::CAPI, &[("tls.crt", "SA"), ("tls.key", "SA-PRIVATE-KEY")]),
        case("rke2-release-file", RKE2, &ALL, true).with(|cluster, _| {
            cluster.prime = true;
            let file = json!({"rke2": {"releases": [{"version": RKE2, "serverArgs": {"prime": {"type": "boolean"}}}]}});
            cluster.releases = Arc::new(Releases::parse(file.to_string().as_bytes()).unwrap());
        }),
    ]
}

/// A plan for reading, with the checksum of its bytes.
fn readable(case: &Case, epoch: Epoch) -> String {
    let version = case.cluster.spec.kubernetes_version.parse().unwrap();
    let name = MachineName::from(case.name);
    let rendered = render(epoch, &case.cluster, &version, &name, &case.machine, &case.placement).unwrap();
    let plan = rendered.document.plan();
    let mut text = format!("sha256 {}\n", rendered.document.checksum());
    rendered.warnings.iter().for_each(|warning| writeln!(text, "warning {warning}").unwrap());
    for file in &plan.files {
        let flags = [("dynamic", file.dynamic), ("minor", file.minor)];
        let flags: String =
            flags.iter().filter(|(_, set)| *set).map(|(name, _)| format!(" {name}")).collect();
        writeln!(text, "\nfile {} mode={}{flags}", file.path, file.permissions).unwrap();
        let content = String::from_utf8(file.decoded().unwrap()).unwrap();
        content.lines().for_each(|line| writeln!(text, "  {line}").unwrap());
    }
    for instruction in &plan.instructions {
        let common = &instruction.common;
        writeln!(text, "\ninstruction {} {} {} {:?}", common.name, common.image, common.command, common.args)
            .unwrap();
        common.env.iter().for_each(|entry| writeln!(text, "  {entry}").unwrap());
    }
    for instruction in &plan.periodic_instructions {
        let common = &instruction.common;
        writeln!(
            text,
            "\nperiodic {} every {} s: {:?}",
            common.name, instruction.period_seconds, common.args
        )
        .unwrap();
    }
    for (name, probe) in &plan.probes {
        let get = &probe.http_get;
        writeln!(text, "\nprobe {name} {} ca={} cert={}", get.url, get.ca_cert, get.client_cert).unwrap();
    }
    text
}

#[test]
fn plans_of_every_epoch_stay_as_they_are() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus");
    let update = std::env::var_os("UPDATE_GOLDEN").is_some();
    for epoch in Epoch::all() {
        let directory = root.join(format!("epoch-{epoch}"));
        for case in cases() {
            let (path, now) = (directory.join(format!("{}.txt", case.name)), readable(&case, epoch));
            match fs::read_to_string(&path) {
                Ok(golden) => assert_eq!(
                    now,
                    golden,
                    "{} drifts: nodes of existing clusters would be disturbed. Add an epoch (src/epoch.rs)",
                    path.display()
                ),
                Err(_) if update => {
                    fs::create_dir_all(&directory).unwrap();
                    fs::write(&path, now).unwrap();
                }
                Err(_) => panic!("{} is missing; UPDATE_GOLDEN=1 writes it", path.display()),
            }
        }
    }
}

/// Whatever a plan is made of, no agent finds anything wrong with it.
#[test]
fn plans_are_valid() {
    for case in cases() {
        let version = case.cluster.spec.kubernetes_version.parse().unwrap();
        let name = MachineName::from(case.name);
        let rendered =
            render(Epoch::NEWEST, &case.cluster, &version, &name, &case.machine, &case.placement).unwrap();
        let findings: Vec<_> = plan::validate(rendered.document.plan())
            .into_iter()
            .filter(|finding| finding.severity == plan::Severity::Error && !case.machine.is_windows())
            .collect();
        assert!(findings.is_empty(), "{}: {findings:?}", case.name);
    }
}
