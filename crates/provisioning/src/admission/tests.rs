use std::collections::{BTreeMap, BTreeSet};

use api::catalogue::annotations;
use api::provisioning::v1::{
    AgentDeploymentCustomization, AgentSchedulingCustomization, MachinePool, PodDisruptionBudgetSpec,
    PriorityClassSpec, WebhookDeploymentCustomization,
};
use api::rke::v1::{
    DrainHook, ETCD, ETCDSnapshotPhase, ETCDSnapshotS3, EnvVar, RKEControlPlaneStatus, RotateCertificates,
    SnapshotCreate, SnapshotRestore, Userdata,
};
use serde_json::{Value, json};

use super::*;

fn cluster_of(text: &str) -> Cluster {
    let documents: Vec<Value> = serde_saphyr::from_multiple(text).unwrap();
    serde_json::from_value(documents[0].clone()).unwrap()
}

/// Three servers and workers, of a node driver.
fn driver() -> Cluster {
    cluster_of(include_str!("../../testdata/graphs/02-ha.in.yaml"))
}

/// The documentation's example: v1.28.0+rke2r1 on vSphere.
fn native() -> Cluster {
    cluster_of(include_str!("../../testdata/graphs/06-vsphere-native.in.yaml"))
}

/// Answers under which the clusters above are admitted.
fn answers() -> Answers<'static> {
    let secret = |name: &str| SecretRef { namespace: "cattle-global-data".into(), name: name.into() };
    Answers { accessible: BTreeSet::from([secret("cc-aws")]), agent_scheduling: true, ..Default::default() }
}

fn create(new: &Cluster) -> Request<'_> {
    Request { operation: Operation::Create, user: "u-1", master: false, old: None, new, dry_run: false }
}

fn update<'a>(old: &'a Cluster, new: &'a Cluster) -> Request<'a> {
    Request { operation: Operation::Update, old: Some(old), ..create(new) }
}

fn config(cluster: &mut Cluster) -> &mut RKEConfig {
    cluster.spec.rke_config.as_mut().unwrap()
}

fn pool(cluster: &mut Cluster, index: usize) -> &mut MachinePool {
    &mut config(cluster).machine_pools[index]
}

fn agent(cluster: &mut Cluster) -> &mut AgentDeploymentCustomization {
    cluster.spec.cluster_agent_deployment_customization.get_or_insert_default()
}

fn annotate(cluster: &mut Cluster, key: &str, value: &str) {
    cluster.metadata.annotations.get_or_insert_default().insert(key.into(), value.into());
}

#[test]
fn good_clusters_are_admitted_without_a_word() {
    for (name, cluster) in [("driver", driver()), ("native", native())] {
        let answers = answers();
        for request in [create(&cluster), update(&cluster, &cluster)] {
            assert_eq!(validate(&request, &answers), Verdict::default(), "{name} {:?}", request.operation);
        }
    }
}

/// What is refused: a change, and the answer's code and words.
type Case = (fn(&mut Cluster), u16, &'static str);

fn check(base: fn() -> Cluster, cases: &[Case], updating: bool) {
    for (change, code, words) in cases {
        let (old, mut new) = (base(), base());
        change(&mut new);
        let request = if updating { update(&old, &new) } else { create(&new) };
        let verdict = validate(&request, &answers());
        let message = verdict.message();
        assert!(message.contains(words), "{words}\n{message}");
        assert_eq!(verdict.code(), *code, "{message}");
    }
}

#[test]
fn an_id_that_is_there_stays() {
    let (mut old, mut new) = (driver(), driver());
    annotate(&mut old, annotations::MANAGEMENT_CLUSTER_NAME, "c-m-aaaaaaaa");
    let said = |old: &Cluster, new: &Cluster, master: bool| {
        validate(&Request { master, ..update(old, new) }, &answers()).message()
    };
    assert_eq!(said(&old, &old, false), "");
    assert_eq!(said(&old, &new, false), "");
    for id in ["c-m-bbbbbbbb", "kube-system"] {
        annotate(&mut new, annotations::MANAGEMENT_CLUSTER_NAME, id);
        assert!(said(&old, &new, false).contains("management-cluster-name"), "{id}");
        assert_eq!(said(&old, &new, true), "");
    }
}

#[test]
fn on_creation() {
    let cases: &[Case] = &[
        // 1
        (|one| one.metadata.name = Some("-x".into()), 422, r#"metadata.name: Invalid value: "-x""#),
        (|one| one.metadata.name = Some("x".into()), 422, "two or more"),
        (|one| one.metadata.name = Some("a_b".into()), 422, "metadata.name: Invalid value"),
        (
            |one| one.metadata.name = Some("a".repeat(64)),
            422,
            "metadata.name: Too long: may not be more than 63 bytes",
        ),
        (|one| one.metadata.name = Some("local".into()), 422, "fleet-local"),
        (|one| one.metadata.name = Some("c-x2x7k".into()), 422, "kept for management clusters"),
        // 3
        (|one| pool(one, 0).name = "p".repeat(64), 422, "spec.rkeConfig.machinePools[0].name: Too long"),
        (
            |one| pool(one, 0).name = "a b".into(),
            422,
            r#"spec.rkeConfig.machinePools[0].name: Invalid value: "a b""#,
        ),
        // The id is the server's to give.
        (
            |one| annotate(one, annotations::MANAGEMENT_CLUSTER_NAME, "c-m-aaaaaaaa"),
            422,
            "metadata.annotations[provisioning.cattle.io/management-cluster-name]: Forbidden: the server gives",
        ),
        // 4
        (|one| annotate(one, annotations::CREATOR_ID, "u-2"), 422, "must be the user who makes the object"),
        (
            |one| {
                annotate(one, annotations::CREATOR_ID, "u-1");
                annotate(one, annotations::NO_CREATOR_RBAC, "true");
            },
            422,
            "metadata.annotations[field.cattle.io/creatorId]: Forbidden: cannot be set together",
        ),
        // 5
        (
            |one| {
                one.spec.local_cluster_auth_endpoint.fqdn.clear();
                one.spec.local_cluster_auth_endpoint.ca_certs = "PEM".into();
            },
            422,
            "spec.localClusterAuthEndpoint.fqdn: Required value",
        ),
        // 6
        (
            |one| {
                let toleration = json!([{"key": "bad key", "operator": "Exists"}]);
                agent(one).append_tolerations = serde_json::from_value(toleration).unwrap();
            },
            422,
            r#"spec.clusterAgentDeploymentCustomization.appendTolerations[0].key: Invalid value: "bad key""#,
        ),
        (
            |one| {
                let affinity = json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{
                    "topologyKey": "zone",
                    "labelSelector": {"matchExpressions": [{"key": "a", "operator": "In"}]},
                }]}});
                agent(one).override_affinity = Some(serde_json::from_value(affinity).unwrap());
            },
            422,
            "labelSelector.matchExpressions[0].values: Required value",
        ),
        (
            |one| {
                let affinity = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Has"}]}],
                }}});
                agent(one).override_affinity = Some(serde_json::from_value(affinity).unwrap());
            },
            422,
            r#"matchExpressions[0].operator: Unsupported value: "Has""#,
        ),
        // 7
        (
            |one| {
                one.spec.webhook_deployment_customization =
                    Some(WebhookDeploymentCustomization { replica_count: Some(0), ..Default::default() });
            },
            422,
            "spec.webhookDeploymentCustomization.replicaCount: Invalid value: 0",
        ),
        // 8, of the cluster, of a pool, of the bucket
        (
            |one| one.spec.cloud_credential_secret_name = "cattle-global-data:others".into(),
            401,
            "spec.cloudCredentialSecretName: Forbidden: user u-1 cannot get secret cattle-global-data/others",
        ),
        (
            |one| pool(one, 1).common.cloud_credential_secret_name = "mine".into(),
            401,
            "spec.rkeConfig.machinePools[1].cloudCredentialSecretName: Forbidden: user u-1 cannot get secret fleet-default/mine",
        ),
        (
            |one| {
                let s3 = ETCDSnapshotS3 { cloud_credential_name: "s3".into(), ..Default::default() };
                config(one).configuration.etcd = Some(ETCD { s3: Some(s3), ..Default::default() });
            },
            401,
            "spec.rkeConfig.etcd.s3.cloudCredentialName: Not found",
        ),
        // 9
        (
            |one| one.spec.agent_env_vars.push(EnvVar { name: "no_proxy".into(), value: "a, b".into() }),
            400,
            r#"spec.agentEnvVars[1].value: Invalid value: "a, b": NO_PROXY must not contain spaces"#,
        ),
        // 10
        (
            |one| {
                one.spec
                    .agent_env_vars
                    .push(EnvVar { name: "CATTLE_AGENT_VAR_DIR".into(), value: "/a".into() })
            },
            400,
            "use spec.rkeConfig.dataDirectories.systemAgent",
        ),
        (
            |one| config(one).configuration.data_directories.system_agent = "var/lib".into(),
            400,
            r#"spec.rkeConfig.dataDirectories.systemAgent: Invalid value: "var/lib": must be an absolute path"#,
        ),
        (
            |one| config(one).configuration.data_directories.provisioning = "/a/$(id)".into(),
            400,
            "cannot contain shell expressions",
        ),
        (
            |one| config(one).configuration.data_directories.k8s_distro = "/a/../b".into(),
            400,
            "must be without",
        ),
        (
            |one| {
                let directories = &mut config(one).configuration.data_directories;
                directories.system_agent = "/data".into();
                directories.k8s_distro = "/data/deep/rke2".into();
            },
            400,
            "must neither be nor hold nor lie in k8sDistro",
        ),
        // 11
        (
            |one| {
                let budget =
                    PodDisruptionBudgetSpec { min_available: "1".into(), max_unavailable: "2".into() };
                let scheduling = AgentSchedulingCustomization {
                    pod_disruption_budget: Some(budget),
                    ..Default::default()
                };
                agent(one).scheduling_customization = Some(scheduling);
            },
            400,
            "podDisruptionBudget: Forbidden: only one of",
        ),
        (
            |one| {
                let budget = PodDisruptionBudgetSpec { min_available: "101%".into(), ..Default::default() };
                let scheduling = AgentSchedulingCustomization {
                    pod_disruption_budget: Some(budget),
                    ..Default::default()
                };
                agent(one).scheduling_customization = Some(scheduling);
            },
            400,
            r#"podDisruptionBudget.minAvailable: Invalid value: "101%""#,
        ),
        // 12
        (
            |one| {
                let class =
                    PriorityClassSpec { value: 1_000_000_001, preemption_policy: Some("Always".into()) };
                let scheduling =
                    AgentSchedulingCustomization { priority_class: Some(class), ..Default::default() };
                agent(one).scheduling_customization = Some(scheduling);
            },
            400,
            r#"preemptionPolicy: Unsupported value: "Always": supported values: "PreemptLowerPriority", "Never""#,
        ),
        // 15
        (
            |one| one.spec.default_pod_security_admission_configuration_template_name = "none".into(),
            400,
            r#"spec.defaultPodSecurityAdmissionConfigurationTemplateName: Not found: "none""#,
        ),
        // Versions.
        (|one| one.spec.kubernetes_version.clear(), 400, "spec.kubernetesVersion: Required value"),
        (
            |one| one.spec.kubernetes_version = "latest".into(),
            400,
            r#"spec.kubernetesVersion: Invalid value: "latest""#,
        ),
        // Pools.
        (
            |one| pool(one, 1).name = "servers".into(),
            422,
            r#"spec.rkeConfig.machinePools[1].name: Duplicate value: "servers""#,
        ),
        (
            |one| pool(one, 1).machine_config_ref = None,
            422,
            "machinePools[1].machineConfigRef: Required value",
        ),
        (
            |one| pool(one, 1).machine_config_ref.as_mut().unwrap().namespace = Some("other".into()),
            422,
            r#"machineConfigRef.namespace: Invalid value: "other": must be "fleet-default""#,
        ),
        (
            |one| pool(one, 1).machine_config_ref.as_mut().unwrap().kind = Some("Amazonec2Machine".into()),
            422,
            "must be a node driver's machine config",
        ),
        (
            |one| pool(one, 1).worker_role = false,
            422,
            "spec.rkeConfig.machinePools[1]: Required value: at least one of",
        ),
        (
            |one| {
                pool(one, 0).machine_os = "windows".into();
            },
            422,
            "spec.rkeConfig.machinePools[0].etcdRole: Invalid value: true: machines with Windows can only be workers",
        ),
        (|one| pool(one, 1).machine_os = "plan9".into(), 422, r#"machineOS: Unsupported value: "plan9""#),
        (
            |one| {
                let hooks =
                    &mut config(one).configuration.upgrade_strategy.worker_drain_options.pre_drain_hooks;
                hooks.push(DrainHook { annotation: "not valid".into() });
            },
            422,
            "upgradeStrategy.workerDrainOptions.preDrainHooks[0].annotation: Invalid value",
        ),
    ];
    check(driver, cases, false);
}

#[test]
fn on_creation_of_native_clusters() {
    let cases: &[Case] = &[
        (
            |one| config(one).infrastructure_ref.as_mut().unwrap().namespace = Some("other".into()),
            422,
            "spec.rkeConfig.infrastructureRef.namespace: Invalid value",
        ),
        (
            |one| config(one).infrastructure_ref.as_mut().unwrap().api_version = Some("v1".into()),
            422,
            "spec.rkeConfig.infrastructureRef.apiVersion: Required value",
        ),
        (
            |one| pool(one, 0).machine_config_ref.as_mut().unwrap().kind = Some("VSphereMachine".into()),
            422,
            "a kind that ends in Template",
        ),
        (
            |one| pool(one, 1).machine_os = "windows".into(),
            422,
            "native providers cannot make machines with Windows",
        ),
        (
            |one| pool(one, 1).userdata = Some(Userdata { inline_userdata: "- a".into() }),
            422,
            "machinePools[1].userdata.inlineUserdata: Invalid value",
        ),
    ];
    check(native, cases, false);
}

#[test]
fn on_update() {
    let cases: &[Case] = &[
        // 2
        (|one| one.spec.rke_config = None, 400, "spec.rkeConfig: Forbidden"),
        // 4
        (|one| annotate(one, annotations::CREATOR_ID, "u-1"), 422, "cannot be changed"),
        // 10
        (
            |one| config(one).configuration.data_directories.k8s_distro = "/data/rke2".into(),
            400,
            "spec.rkeConfig.dataDirectories.k8sDistro: Invalid value: \"/data/rke2\": cannot be changed",
        ),
        (
            |one| {
                one.spec
                    .agent_env_vars
                    .push(EnvVar { name: "CATTLE_AGENT_VAR_DIR".into(), value: "/a".into() })
            },
            400,
            "CATTLE_AGENT_VAR_DIR cannot be set",
        ),
        // 14
        (
            |one| {
                config(one).etcd_snapshot_restore = Some(SnapshotRestore {
                    name: "s".into(),
                    generation: 1,
                    restore_rke_config: "all".into(),
                });
            },
            400,
            "etcd restore references missing snapshot s in namespace fleet-default",
        ),
        (
            |one| {
                config(one).etcd_snapshot_restore = Some(SnapshotRestore {
                    name: "s".into(),
                    generation: 1,
                    restore_rke_config: "some".into(),
                });
            },
            400,
            r#"restoreRKEConfig: Unsupported value: "some""#,
        ),
        // Versions.
        (|one| one.spec.kubernetes_version = "v1.32.9+rke2r1".into(), 400, "a lower minor version"),
        (|one| one.spec.kubernetes_version = "v1.33.5+k3s1".into(), 400, "cannot change its distribution"),
        // Operations.
        (
            |one| {
                config(one).etcd_snapshot_create = Some(SnapshotCreate { generation: 1 });
                config(one).rotate_certificates =
                    Some(RotateCertificates { generation: 1, services: vec![] });
            },
            400,
            "spec.rkeConfig.rotateCertificates: Forbidden: only one operation can be asked for at a time",
        ),
        // Providers.
        (
            |one| {
                let reference = pool(one, 1).machine_config_ref.as_mut().unwrap();
                reference.api_version = Some("infrastructure.cluster.x-k8s.io/v1beta1".into());
                reference.kind = Some("VSphereMachineTemplate".into());
            },
            400,
            "a pool cannot change between node drivers and native providers: add a pool and delete this one, see docs/provider-migration.md",
        ),
        (
            |one| config(one).infrastructure_ref = config(&mut native()).infrastructure_ref.clone(),
            400,
            "a cluster cannot change between node drivers and native providers: see docs/provider-migration.md",
        ),
    ];
    check(driver, cases, true);
    let cases: &[Case] = &[
        (
            |one| config(one).infrastructure_ref.as_mut().unwrap().name = Some("other".into()),
            400,
            "spec.rkeConfig.infrastructureRef: Forbidden: cannot be changed",
        ),
        (|one| config(one).infrastructure_ref = None, 400, "docs/provider-migration.md"),
    ];
    check(native, cases, true);
}

#[test]
fn what_was_let_in_once_stays() {
    let spaced = |one: &mut Cluster| {
        one.spec.agent_env_vars.push(EnvVar { name: "NO_PROXY".into(), value: "a, b".into() });
        one.spec.agent_env_vars.push(EnvVar { name: "CATTLE_AGENT_VAR_DIR".into(), value: "/old".into() });
        one.spec.kubernetes_version = "bogus".into();
        one.spec.cloud_credential_secret_name = "unreadable".into();
        pool(one, 0).name = "p".repeat(64);
    };
    let (mut old, mut new) = (driver(), driver());
    spaced(&mut old);
    spaced(&mut new);
    pool(&mut new, 1).quantity = Some(5);
    assert_eq!(validate(&update(&old, &new), &answers()).message(), "");
    config(&mut new).configuration.data_directories.system_agent = "/old".into();
    assert_eq!(validate(&update(&old, &new), &answers()).message(), "", "the same directory, said otherwise");
}

#[test]
fn warnings() {
    type Case = (fn() -> Cluster, fn(&mut Cluster), &'static str);
    let cases: &[Case] = &[
        (driver, |one| pool(one, 0).etcd_role = false, "no pool has the role etcd"),
        (driver, |one| pool(one, 0).quantity = Some(2), "2 etcd members survive no more failures than 1"),
        (
            driver,
            |one| pool(one, 1).machine_config_ref = pool(one, 0).machine_config_ref.clone(),
            "servers, workers share Amazonec2Config nc-servers",
        ),
        (
            driver,
            |one| pool(one, 1).userdata = Some(Userdata { inline_userdata: "x: y".into() }),
            "spec.rkeConfig.machinePools[1].userdata: ignored",
        ),
        (
            native,
            |one| one.spec.cloud_credential_secret_name = "cattle-global-data:cc-aws".into(),
            "spec.cloudCredentialSecretName: ignored",
        ),
        (
            native,
            |one| pool(one, 0).common.cloud_credential_secret_name = "cattle-global-data:cc-aws".into(),
            "spec.rkeConfig.machinePools[0].cloudCredentialSecretName: ignored",
        ),
        (
            native,
            |one| pool(one, 0).hostname_length_limit = 15,
            "machinePools[0].hostnameLengthLimit: ignored",
        ),
        (native, |one| config(one).infrastructure_ref = None, "usually made in a VSphereCluster"),
        (
            native,
            |one| pool(one, 1).machine_config_ref.as_mut().unwrap().kind = Some("AWSMachineTemplate".into()),
            "machines of AWSMachineTemplate are usually made in a AWSCluster, and the cluster's infrastructure is a VSphereCluster",
        ),
    ];
    for (base, change, words) in cases {
        let mut new = base();
        change(&mut new);
        let verdict = validate(&create(&new), &answers());
        assert!(verdict.is_admitted(), "{words}: {}", verdict.message());
        assert!(verdict.warnings.iter().any(|one| one.contains(words)), "{words}\n{:?}", verdict.warnings);
    }
}

#[test]
fn versions_and_keys_that_are_not_known_are_warned_of() {
    let known_versions = BTreeSet::from(["v1.33.5+rke2r1".to_owned()]);
    let known_arguments = BTreeSet::from(["cni".to_owned(), "kube-apiserver-arg".to_owned()]);
    let answers = Answers {
        known_versions: Some(&known_versions),
        known_arguments: Some(known_arguments),
        ..answers()
    };
    let (old, mut new) = (driver(), driver());
    assert_eq!(validate(&create(&new), &answers), Verdict::default());
    config(&mut new).configuration.machine_global_config.insert("garbage".into(), json!("value"));
    for (version, words) in [
        ("v1.35.1+rke2r1", "skips a minor version: upgrade to v1.34 first"),
        ("v1.33.1+rke2r1", "is older than the version that the cluster runs"),
        ("v1.34.1+rke2r1", "is not in the release data"),
    ] {
        new.spec.kubernetes_version = version.into();
        let verdict = validate(&update(&old, &new), &answers);
        assert!(verdict.is_admitted(), "{}", verdict.message());
        assert!(verdict.warnings.iter().any(|one| one.contains(words)), "{words}\n{:?}", verdict.warnings);
        let key = format!("garbage is not known as an argument of {version}");
        assert!(verdict.warnings.iter().any(|one| one.contains(&key)), "{:?}", verdict.warnings);
    }
}

#[test]
fn one_operation_at_a_time() {
    let (mut old, mut new) = (driver(), driver());
    config(&mut old).etcd_snapshot_create = Some(SnapshotCreate { generation: 4 });
    config(&mut new).etcd_snapshot_create = Some(SnapshotCreate { generation: 3 });
    let verdict = validate(&update(&old, &new), &answers());
    let words = "spec.rkeConfig.etcdSnapshotCreate.generation: Invalid value: 3: must not be lower than 4";
    assert!(verdict.message().contains(words), "{}", verdict.message());

    config(&mut new).etcd_snapshot_create = Some(SnapshotCreate { generation: 5 });
    let mut busy = answers();
    busy.control_plane = Some(RKEControlPlaneStatus {
        etcd_snapshot_restore_phase: ETCDSnapshotPhase::Shutdown,
        ..Default::default()
    });
    let verdict = validate(&update(&old, &new), &busy);
    assert!(verdict.message().contains("etcdSnapshotRestore is not finished"), "{}", verdict.message());

    config(&mut new).etcd_snapshot_create = config(&mut old).etcd_snapshot_create.clone();
    config(&mut new).etcd_snapshot_restore =
        Some(SnapshotRestore { name: "file".into(), generation: 1, restore_rke_config: String::new() });
    let verdict = validate(&update(&old, &new), &busy);
    assert!(verdict.is_admitted(), "a restore is the way out: {}", verdict.message());
    assert!(verdict.warnings[0].contains("begun anew"), "{:?}", verdict.warnings);
}

#[test]
fn a_restore_may_come_with_any_version() {
    let (old, mut new) = (driver(), driver());
    new.spec.kubernetes_version = "v9.99.99+bogus".into();
    config(&mut new).etcd_snapshot_restore =
        Some(SnapshotRestore { name: "s".into(), generation: 1, restore_rke_config: "all".into() });
    let request = update(&old, &new);
    assert!(questions(&request).contains(&Question::Snapshot("s".into())));
    let saved = crate::graph::tests_support::snapshot_of(&old.spec);
    let answers = Answers { snapshots: BTreeMap::from([("s".to_owned(), saved)]), ..answers() };
    assert_eq!(validate(&request, &answers).message(), "");
}

#[test]
fn questions_are_asked_once_and_only_if_needed() {
    let (old, mut new) = (driver(), driver());
    assert_eq!(questions(&update(&old, &new)), [Question::ControlPlane]);
    let credential = SecretRef { namespace: "cattle-global-data".into(), name: "cc-aws".into() };
    assert_eq!(questions(&create(&new)), [Question::Access(credential)]);
    new.metadata.name = Some("c-x2x7k".into());
    new.spec.default_pod_security_admission_configuration_template_name = "restricted".into();
    let asked = questions(&create(&new));
    assert!(asked.contains(&Question::ManagementCluster("c-x2x7k".into())));
    assert!(asked.contains(&Question::PodSecurityTemplate("restricted".into())));
}

#[test]
fn the_local_cluster_stays() {
    let mut local = driver();
    let delete = |one: &Cluster| {
        validate(&Request { operation: Operation::Delete, ..create(one) }, &Answers::default()).code()
    };
    assert_eq!(delete(&local), 200);
    local.metadata.name = Some("local".into());
    assert_eq!(delete(&local), 400);
}

#[test]
fn a_cluster_that_goes_can_lose_its_finalizers() {
    let (old, mut new) = (driver(), driver());
    new.metadata.deletion_timestamp = Some(serde_json::from_str("\"2026-01-01T00:00:00Z\"").unwrap());
    new.spec.kubernetes_version = "bogus".into();
    assert!(validate(&update(&old, &new), &Answers::default()).is_admitted());
}

#[test]
fn creators_and_schemas_are_filled_in() {
    let mut new = driver();
    let mutation = mutate(&create(&new), &answers());
    assert_eq!(mutation.metadata.annotations.as_ref().unwrap()[annotations::CREATOR_ID], "u-1");
    annotate(&mut new, annotations::NO_CREATOR_RBAC, "true");
    let mutation = mutate(&create(&new), &answers());
    assert!(!mutation.metadata.annotations.unwrap().contains_key(annotations::CREATOR_ID));

    let (old, mut new) = (driver(), driver());
    pool(&mut new, 0).dynamic_schema_spec.clear();
    let kept = |new: &Cluster| {
        let mut cluster = mutate(&update(&old, new), &answers());
        !pool(&mut cluster, 0).dynamic_schema_spec.is_empty()
    };
    assert!(kept(&new));
    annotate(&mut new, annotations::ALLOW_DYNAMIC_SCHEMA_DROP, "true");
    assert!(!kept(&new));
    new.metadata.annotations = None;
    pool(&mut new, 0).machine_config_ref.as_mut().unwrap().kind = Some("AzureConfig".into());
    assert!(!kept(&new), "another driver has other fields");
}

#[test]
fn pod_security_is_delivered_and_withdrawn() {
    let mut new = driver();
    new.spec.default_pod_security_admission_configuration_template_name = "restricted".into();
    let mut answers = answers();
    answers.pod_security_templates.insert("restricted".into(), Default::default());
    assert_eq!(validate(&create(&new), &answers).message(), "");
    let made = mutate(&create(&new), &answers);
    let configuration = &made.spec.rke_config.as_ref().unwrap().configuration;
    let path = "/etc/rancher/rke2/config/rancher-psact.yaml";
    let arguments = json!([format!("admission-control-config-file={path}"), "audit-log-maxage=30"]);
    assert_eq!(configuration.machine_global_config["kube-apiserver-arg"], arguments);
    let item = &configuration.machine_selector_files[0].file_sources[0].secret.items[0];
    assert_eq!(item.path, path);
    assert!(!item.hash.is_empty());
    assert!(delivers_pod_security(&made) && !delivers_pod_security(&new));
    let secret = pod_security_secret(&made, &answers.pod_security_templates["restricted"]).unwrap();
    assert_eq!(secret.id().to_string(), "Secret fleet-default/prod-admission-configuration-psact");
    assert_eq!(secret.annotation("rke.cattle.io/object-authorized-for-clusters"), Some("prod"));

    let mut changed = answers.pod_security_templates["restricted"].clone();
    changed.configuration.defaults.enforce = "baseline".into();
    assert_eq!(pod_security_secret(&made, &changed), None, "nodes take a file by its hash");

    let again = mutate(&update(&new, &made), &answers);
    assert_eq!(again, made, "twice is once");

    let mut without = made.clone();
    without.spec.default_pod_security_admission_configuration_template_name.clear();
    let withdrawn = mutate(&update(&made, &without), &answers);
    assert_eq!(withdrawn.spec.rke_config, driver().spec.rke_config);
}

#[test]
fn other_objects() {
    use crate::Object;
    let config = |creator: Option<&str>| {
        let marks = creator.map(|creator| json!({"field.cattle.io/creatorId": creator})).unwrap_or_default();
        Object::from_document(json!({"kind": "SimConfig", "metadata": {"annotations": marks}}))
    };
    let errors = |old: Option<&Object>, new: &Object| creator_of(old, new, Some("u-1")).len();
    assert_eq!(errors(None, &config(None)), 0, "it is filled in");
    assert_eq!(errors(None, &config(Some("u-2"))), 1);
    assert_eq!(errors(Some(&config(Some("u-2"))), &config(Some("u-2"))), 0);
    assert_eq!(errors(Some(&config(Some("u-2"))), &config(Some("u-1"))), 1);
    assert_eq!(errors(Some(&config(Some("u-2"))), &config(None)), 0, "it may be removed");
    let moved = creator_of(None, &config(Some("u-2")), None);
    assert_eq!(moved, [], "who may do everything brings objects of others");

    assert_eq!(plan_secret(None), Ok(()));
    assert_eq!(plan_secret(Some(br#"{"files":[]}"#)), Ok(()));
    assert!(plan_secret(Some(b"nonsense")).unwrap_err().to_string().starts_with("data[plan]: Invalid value"));

    let machine = |kind: &str| {
        Object::from_document(json!({"kind": kind, "metadata": {"name": "m", "namespace": "n"}}))
    };
    let machines = [machine("SimMachine"), machine("SimMachine"), machine("CustomMachine")];
    let refusal = driver_in_use("sim", &machines).unwrap().to_string();
    assert_eq!(refusal, "spec.active: Forbidden: SimMachine n/m and 1 more machines use it");
    assert_eq!(driver_in_use("amazonec2", &machines), None);
}
