//! What is wrong with a plan is said with its place.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use plan::{Document, Severity, validate};
use serde_json::{Value, json};

fn findings(plan: &Value) -> Vec<String> {
    let document = Document::parse(plan.to_string()).unwrap();
    let line = |finding: plan::Finding| match finding.severity {
        Severity::Error => format!("error: {finding}"),
        Severity::Warning => format!("warning: {finding}"),
    };
    validate(document.plan()).into_iter().map(line).collect()
}

#[test]
fn a_plan_of_ranchers_planner_is_fine() {
    let plan = json!({
        "files": [{"content": "aGVsbG8K", "path": "/a", "permissions": "0644"}, {"path": "C:\\a", "directory": true}],
        "instructions": [{"name": "i", "image": "x:1", "env": ["A=b=c", "B="], "saveOutput": true}],
        "periodicInstructions": [{"name": "p", "command": "c"}],
        "probes": {"p": {"httpGet": {"url": "http://[::1]:10248/healthz"}}},
    });
    assert_eq!(findings(&plan), [""; 0]);
}

#[test]
fn files() {
    let plan = json!({"files": [
        {},
        {"path": "a", "permissions": "9z", "content": "c2VjcmV0!"},
        {"path": "/a/../b", "permissions": "4755", "uid": -2, "gid": 4_294_967_295_u64, "Content": "eA=="},
        {"path": "/d", "directory": true, "content": "eA==", "action": "remove"},
        {"path": "/d", "action": "delete"},
        {"path": "/n\u{0}", "permissions": "-1"},
    ]});
    assert_eq!(
        findings(&plan),
        [
            "error: files[0].path: Required value",
            "error: files[1].path: Invalid value: \"a\": must be an absolute path",
            "error: files[1].content: Invalid value: must be standard base64 with padding",
            "error: files[1].permissions: Invalid value: \"9z\": must be an octal number",
            "warning: files[2].Content: unknown field: did you mean \"content\"?",
            "warning: files[2].path: Invalid value: \"/a/../b\": contains \"..\"",
            "warning: files[2].permissions: Invalid value: \"4755\": only the last nine bits have an effect",
            "error: files[2].uid: Invalid value: -2: must be a user or group id, or -1 to leave it as it is",
            "error: files[2].gid: Invalid value: 4294967295: must be a user or group id, or -1 to leave it as it is",
            "warning: files[3].action: Unsupported value: \"remove\": supported values: \"delete\"; the file is written",
            "warning: files[3].content: Forbidden: has no effect on a directory or on a file that is removed",
            "warning: files[4].path: Duplicate value: \"/d\": is also the path of files[3]; the last one counts",
            "error: files[5].path: Invalid value: \"/n\\0\": must not contain a NUL byte",
            "error: files[5].permissions: Invalid value: \"-1\": must be an octal number",
        ]
    );
}

#[test]
fn instructions() {
    let plan = json!({
        "instructions": [
            {"saveOutput": true, "extra": 1},
            {"name": "i", "command": "c\u{0}", "args": ["a", "b\u{0}"], "saveOutput": true},
            {"name": "i", "script": "s", "env": ["A", "=x", "PATH=/bin", "B=\u{0}"], "saveOutput": true},
        ],
        "periodicInstructions": [
            {"command": "c"}, {"name": "p", "command": "c", "periodSeconds": -1}, {"name": "p", "command": "c"},
        ],
    });
    assert_eq!(
        findings(&plan),
        [
            "warning: instructions[0].extra: unknown field",
            "error: instructions[0].command: Required value: there is no image that could bring a run.sh",
            "warning: instructions[0].name: Required value: output is saved under the name",
            "error: instructions[1].command: Invalid value: \"c\\0\": must not contain a NUL byte",
            "error: instructions[1].args[1]: Invalid value: must not contain a NUL byte",
            "warning: instructions[2].script: Go agents up to v0.15.0 ignore it and run the command",
            "warning: instructions[2].env[0]: Invalid value: must be NAME=value; it has no effect",
            "warning: instructions[2].env[1]: Invalid value: must be NAME=value; it has no effect",
            "warning: instructions[2].env[2]: Forbidden: the agent sets PATH itself",
            "error: instructions[2].env[3]: Invalid value: must not contain a NUL byte",
            "warning: instructions[2].name: Duplicate value: \"i\": the last output counts",
            "error: periodicInstructions[0].name: Required value: it is not run without a name",
            "error: periodicInstructions[1].periodSeconds: Invalid value: -1: must be greater than or equal to 0",
            "error: periodicInstructions[2].name: Duplicate value: \"p\"",
        ]
    );
}

#[test]
fn probes() {
    let plan = json!({"Files": [], "probes": {
        "a": {"timeoutSeconds": -1, "httpget": {}},
        "b": {"httpGet": {"url": "ftp://x", "clientCert": "/c"}},
        "c": {"httpGet": {"url": "https://", "insecure": true, "caCert": "/ca", "x": 1}},
    }});
    assert_eq!(
        findings(&plan),
        [
            "warning: Files: unknown field: did you mean \"files\"?",
            "warning: probes[a].httpget: unknown field: did you mean \"httpGet\"?",
            "error: probes[a].timeoutSeconds: Invalid value: -1: must be greater than or equal to 0",
            "error: probes[a].httpGet.url: Required value",
            "error: probes[b].httpGet.url: Invalid value: \"ftp://x\": must be an http or https URL",
            "warning: probes[b].httpGet.clientKey: Required value: certificate and key are used together or not at all",
            "warning: probes[c].httpGet.x: unknown field",
            "error: probes[c].httpGet.url: Invalid value: \"https://\": must be an http or https URL",
            "warning: probes[c].httpGet.insecure: Invalid value: true: client certificate and CA are then ignored",
        ]
    );
}
