//! Names as upstream makes them.
//!
//! The expected values were computed apart from this crate: by a Python script that states the rules with hashlib
//! and base64, and, for the cut names and the label hashes, by running the Go functions that Rancher and Cluster API
//! use. They agreed.

use super::*;

#[test]
fn parts_are_joined_and_cut_at_63() {
    #[rustfmt::skip]
    let cases: &[(&[&str], &str)] = &[
        (&["abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyzabcdefghij"], "abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyzabcdefghij"),
        (&["abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyzabcdefghijk"], "abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyzabcdefghijk"),
        (&["abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyzabcdefghijkl"], "abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyzabcde-2fcd5"),
        (&["abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyzabcdefghijklm"], "abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyzabcde-1b3cd"),
        (&["abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuv"], "abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyzabcde-2ac12"),
        (&["prod", "pool1"], "prod-pool1"),
        (&["aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"], "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa-bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"),
        (&["aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"], "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa-bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"),
        (&["aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"], "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa-bbbbbbbbbbbbbbbbbbbbbbbbbb-62326"),
        (&["aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb"], "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa-bbbbbbbbbbbbbbbbbbbbbbbbbb-3e6b7"),
        (&["aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "bbbbbbbbbb"], "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa-cf2ce3"),
        (&["aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.bbbbbbbbbb"], "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa-bf58fd"),
        (&["aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.bbbbbbbbbb"], "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.b-40e76"),
        (&["aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "bbbbbbbbbb"], "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa-b-32ca6"),
        (&["AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"], "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA-01d3a1"),
        (&["______________________________________________________________________"], "________________________________________________________-80cb6a"),
        (&[""], ""),
        (&["", "x"], "-x"),
        (&["x", ""], "x-"),
        (&["", "", ""], "--"),
        (&["", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"], "-aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa-69918"),
        (&["ééééééééééééééééééééééééééééééé"], "ééééééééééééééééééééééééééééééé"),
        (&["zürich", "größe"], "zürich-größe"),
        (&["aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaéééééé"], "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa-df1da"),
        (&["xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxéééééé"], "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx-8c2860"),
    ];
    for (parts, expected) in cases {
        assert_eq!(safe_concat(parts), *expected, "{parts:?}");
    }
}

#[test]
fn parts_are_joined_and_cut_at_any_length() {
    #[rustfmt::skip]
    let cases: &[(usize, &[&str], &str)] = &[
        (0, &["abc"], ""),
        (0, &[""], ""),
        (1, &["abc"], "a"),
        (5, &["abcdef"], "abcde"),
        (6, &["abcdefg"], "7d1a5"),
        (6, &["abcdef"], "abcdef"),
        (7, &["abcdefgh"], "a-9c56c"),
        (7, &["-bcdefgh"], "-62f6dc"),
        (8, &["abcdefghi"], "ab-19cc0"),
        (8, &["a-cdefghi"], "a-3e6bda"),
        (10, &["prod-worker-x7k2p"], "prod-d05a3"),
        (15, &["prod", "worker-x7k2p-abcde"], "prod-work-cb3d3"),
        (13, &["prod.worker.x7k2p"], "prod.wo-cdf93"),
        (62, &["aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"], "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"),
        (62, &["aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"], "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa-7d3e7"),
        (63, &["aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"], "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"),
        (63, &["aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"], "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa-ffe05"),
        (63, &["aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "bbbbbbbbbb"], "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa-cf2ce3"),
        (64, &["aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"], "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa-63536"),
        (53, &["mcc", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"], "mcc-aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa-de729"),

    ];
    for (longest, parts, expected) in cases {
        assert_eq!(safe_concat_within(*longest, parts), *expected, "{longest} {parts:?}");
    }
}

#[test]
fn no_input_is_cut_inside_a_character_or_comes_out_too_long() {
    let parts = ["-é.ü-", "größe", "東京-3", "--"];
    for longest in 0..80 {
        for repeat in 1..20 {
            let name = safe_concat_within(longest, &parts.repeat(repeat));
            assert!(name.len() <= longest, "{longest} {repeat} {name}");
        }
    }
}

#[test]
fn what_is_no_label_value_is_hashed() {
    #[rustfmt::skip]
    let cases = [
        ("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"),
        ("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "hash_2W8PhQ_z"),
        ("md-0", "md-0"),
        ("prod/pool", "hash_UPzrRw_z"),
        ("-lead", "hash_FtTS3g_z"),
        ("trail-", "hash_tnT4Kg_z"),
        ("tail.", "hash_RMPxNw_z"),
        ("größe", "hash_zTj0mg_z"),
        ("a b", "hash_EKP58g_z"),
        ("", ""),
        ("xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx", "hash_rCRq1Q_z"),
        ("Under_score.dot-dash9", "Under_score.dot-dash9"),
    ];
    for (text, expected) in cases {
        assert_eq!(label_value(text), expected, "{text:?}");
    }
}

#[test]
fn hashes() {
    assert_eq!(md5_hex("", 5), "d41d8");
    assert_eq!(md5_hex("-----BEGIN CERTIFICATE-----", 5), "4a7a6");
    assert_eq!(md5_hex("prod", 10), "d6e4a9b664");
    assert_eq!(md5_hex("größe", 99), "fdbb3a56280acfa9031707622c599ccb");
    assert_eq!(plan_hash(b""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    assert_eq!(
        plan_hash(br#"{"files":[]}"#),
        "602e35a92eec4bc0a2ec6ae113f07bfc6933322fb69fe8dee416e5a67217e2a2"
    );
}

/// Long enough that every name of it is cut.
const MACHINE: &str = "production-frankfurt-pool-of-large-workers-7c9fd-x2x7k";
/// The same for a cluster.
const CLUSTER: &str = "production-cluster-in-frankfurt-for-the-retail-business";

#[test]
fn objects_of_a_machine() {
    let short = Bootstrap("prod-pool1-7c9fd-x2x7k");
    assert_eq!(plan_secret(short), "prod-pool1-7c9fd-x2x7k-machine-plan");
    assert_eq!(bootstrap_secret(short), "prod-pool1-7c9fd-x2x7k-machine-bootstrap");
    let cut = |end: &str| format!("{MACHINE}-ma-{end}");
    let (bootstrap, machine) = (Bootstrap(MACHINE), InfraMachine(MACHINE));
    assert_eq!(plan_secret(bootstrap), cut("8f654"));
    assert_eq!(bootstrap_secret(bootstrap), cut("6b7a1"));
    assert_eq!(machine_state_secret(machine), cut("ceee2"));
    assert_eq!(machine_driver_secret(machine), cut("f1f03"));
    assert_eq!(machine_provision(machine), cut("7bfd7"));
    assert_eq!(machine_provision_extension(machine), cut("771e2"));
    assert_eq!(machine_certs_secret(machine), "machine-certs-8b41e67492efd8e2b39f272e01d617d0");
    let edge = InfraMachine("edge.site-12.example-5f7b9");
    assert_eq!(instance(edge), "edge-site-12-example-5f7b9");
    assert_eq!(hostname(edge, 63), "edge-site-12-example-5f7b9");
    assert_eq!(hostname(edge, 15), "edge-site-298bb");
    assert_eq!(hostname(edge, 10), "edge-298bb");
    assert_eq!(registered_machine(Registrant::Custom, "4f2a9c"), "custom-a9ee6939d8f6");
    assert_eq!(registered_machine(Registrant::Imported, "4f2a9c"), "imported-a9ee6939d8f6");
    assert_eq!(registered_machine(Registrant::Capi, "4f2a9c"), "capi-a9ee6939d8f6");
}

#[test]
fn objects_of_a_cluster() {
    assert_eq!(machine_deployment("prod", "pool1"), "prod-pool1");
    let deployment = machine_deployment(CLUSTER, "large-workers");
    assert_eq!(deployment, format!("{CLUSTER}-l-65235"));
    let template = machine_template(MachineDeployment(&deployment), "0a1b2c3d4e5f");
    assert_eq!(template, format!("{CLUSTER}-l-3c3b7"));
    assert_eq!(
        native_bootstrap_template(MachineDeployment("prod-pool1"), "0a1b2c3d4e"),
        "prod-pool1-0a1b2c3d"
    );
    assert_eq!(bootstrap_template("prod"), "prod-bootstrap-template");
    assert_eq!(bootstrap_template(CLUSTER), format!("{CLUSTER}-b-b595e"));
    assert_eq!(cluster_state_secret("prod"), "prod-rke-state");
    assert_eq!(cluster_state_secret(CLUSTER), format!("{CLUSTER}-r-b6bdc"));
    assert_eq!(kubeconfig_secret("prod"), "prod-kubeconfig");
    assert_eq!(cluster_of_kubeconfig("prod-kubeconfig"), Some("prod"));
    assert_eq!((cluster_of_kubeconfig("prod-ca"), cluster_of_kubeconfig("-kubeconfig")), (None, None));
    assert_eq!(pod_security_secret("prod"), "prod-admission-configuration-psact");
    assert_eq!(owner_binding("c-m-w2bfx9xq", "fleet-default"), "c-m-w2bfx9xq-fleet-default-owner");
    assert_eq!(
        autoscaler_kubeconfig_secret("fleet-default", CLUSTER),
        "fleet-default-production-cluster-in-frankfurt-for-the-ret-367c8"
    );
    assert_eq!(
        autoscaler_helm_op("fleet-default", CLUSTER),
        "autoscaler-fleet-default-production-cluster-in-frankfurt-4c2771"
    );
}

#[test]
fn users_of_clusters() {
    let principal = provisioning_principal("fleet-default", "prod");
    assert_eq!(principal, "system://provisioning/fleet-default/prod");
    assert_eq!(user(&principal), "u-jg5eiqyibx");
    assert_eq!(
        principal_label(&principal),
        "EDSN6T35DKT2UBRGE9NNCQBJD5NMSQBECSNMCR35CLQ2QP35CPGNAR3K5TO74RR"
    );
    assert_eq!(principal_label("local://u-1"), "DHNM6OBC78NIUT9D64");
}

#[test]
fn snapshots() {
    let local = Snapshot {
        storage: SnapshotStorage::Local,
        name: "etcd-snapshot-prod-cp-1-1700000000",
        node: "prod-cp-1",
        location: "file:///var/lib/rancher/rke2/server/db/snapshots/etcd-snapshot-prod-cp-1-1700000000",
        created_at: 1_700_000_000,
    };
    assert_eq!(etcd_snapshot("prod", local), "prod-local-etcd-snapshot-prod-cp-1-1700000000-ac112b");
    let no_object_name = Snapshot {
        storage: SnapshotStorage::S3,
        name: "On-Demand_Snap",
        node: "cp1.example.com",
        location: "s3://bucket/On-Demand_Snap",
        created_at: 1_700_000_123,
    };
    assert_eq!(etcd_snapshot("prod", no_object_name), "prod-s3-etcd-snapshot-cp1-1700000123-97cdae");
}
