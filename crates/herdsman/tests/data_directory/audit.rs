use serde_json::Value;
use tempfile::TempDir;

use crate::program::{Server, fail, text};

#[tokio::test]
async fn requests_are_logged_as_the_policy_says() {
    let place = TempDir::new().unwrap();
    let [data, policy, log] = ["data", "policy.yaml", "audit.log"].map(|name| place.path().join(name));
    let flags = ["--audit-log-path", text(&log), "--audit-policy-file", text(&policy)];
    let start = [&["apiserver", "--listen", "127.0.0.1:0", "--data-dir", text(&data)], &flags[..]].concat();
    std::fs::write(&policy, "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules:\n- level: Some\n").unwrap();
    let said = fail(&start, 1);
    assert!(said.contains("rules[0].level: Unsupported value: \"Some\""), "{said}");
    assert!(!data.exists());

    let rules = "apiVersion: audit.k8s.io/v1\nkind: Policy\nomitStages: [RequestReceived]\nrules:\n\
                 - level: Metadata\n  verbs: [create]\n  resources:\n  - group: \"\"\n    resources: [secrets]\n";
    std::fs::write(&policy, rules).unwrap();
    let server = Server::start_with(&data, &flags).await;
    server.create("s", "word").await;
    server.read("s").await;
    assert!(server.stop().success());
    let text = std::fs::read_to_string(&log).unwrap();
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 1, "{text}");
    assert_eq!(lines[0]["objectRef"]["name"], "s");
    assert_eq!(lines[0]["user"]["username"], "herdsman-admin");
    assert_eq!(lines[0]["sourceIPs"][0], "127.0.0.1");
}
