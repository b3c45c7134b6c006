//! Which binary an agent runs. The server says on the plan Secret which one it would have there, the agent says which one it runs
//! and which one it has tried in vain. Binaries are known by the SHA-256 of their bytes, in hex.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Annotation, the server's: a [`Wanted`] as JSON. Without it an agent stays what it is.
pub const WANTED: &str = "herdsman.io/agent-wanted";
/// Annotation, the agent's: a [`Running`] as text. Agents that do not say it are left alone.
pub const RUNNING: &str = "herdsman.io/agent-running";
/// Annotation, the agent's: the binary that it has tried, and gone back from.
pub const REFUSED: &str = "herdsman.io/agent-refused";

/// Binaries by architecture, as servers call it: `amd64`.
pub type Binaries = BTreeMap<String, String>;

/// What a server would have an agent run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wanted {
    /// Since when, in seconds.
    pub since: i64,
    /// The agent takes the one of its architecture.
    pub binaries: Binaries,
}

impl Wanted {
    /// Reads an annotation. What cannot be read is nothing.
    pub fn read(text: &str) -> Option<Self> {
        serde_json::from_str(text).ok()
    }

    /// As it stands in the annotation.
    pub fn text(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}

/// What an agent runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Running {
    /// The machine's architecture.
    pub architecture: String,
    /// The binary, which has reached its server.
    pub binary: String,
}

impl Running {
    /// Reads an annotation. What cannot be read is nothing.
    pub fn read(text: &str) -> Option<Self> {
        let (architecture, binary) = text.split_once(':')?;
        Some(Running { architecture: architecture.to_owned(), binary: binary.to_owned() })
    }

    /// As it stands in the annotation.
    pub fn text(&self) -> String {
        format!("{}:{}", self.architecture, self.binary)
    }
}

/// An architecture as servers call it, from Rust's name.
pub fn architecture(name: &str) -> &str {
    match name {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

/// The file that servers give out for an architecture.
pub fn file(architecture: &str) -> String {
    format!("rancher-system-agent-{architecture}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn annotations_read_as_they_were_written() {
        let binaries = Binaries::from([("amd64".to_owned(), "ab".to_owned())]);
        let wanted = Wanted { since: 1_767_322_800, binaries };
        assert_eq!(wanted.text(), r#"{"since":1767322800,"binaries":{"amd64":"ab"}}"#);
        assert_eq!(Wanted::read(&wanted.text()), Some(wanted));
        let running = Running { architecture: "arm64".into(), binary: "cd".into() };
        assert_eq!(Running::read(&running.text()), Some(running));
        assert_eq!((Wanted::read("{}"), Running::read("cd")), (None, None));
    }
}
