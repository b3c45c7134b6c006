//! What the server says it is.

use serde_json::{Value, json};

/// The minor version of Kubernetes whose behaviour this server has.
const MINOR: &str = "34";

/// `version.Info`. Clients go by the versions; the rest is for people.
pub(super) fn info() -> Value {
    let architecture = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    json!({
        "major": "1",
        "minor": MINOR,
        "emulationMajor": "1",
        "emulationMinor": MINOR,
        "minCompatibilityMajor": "1",
        "minCompatibilityMinor": "33",
        "gitVersion": format!("v1.{MINOR}.4+herdsman"),
        "gitCommit": "",
        "gitTreeState": "",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "",
        "compiler": "rustc",
        "platform": format!("{}/{architecture}", std::env::consts::OS),
    })
}
