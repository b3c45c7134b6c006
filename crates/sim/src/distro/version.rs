//! Distributions and their versions.

use std::fmt;

/// A distribution.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Runtime {
    K3s,
    Rke2,
}

impl Runtime {
    pub(crate) fn parse(word: &str) -> Option<Self> {
        match word {
            "k3s" => Some(Runtime::K3s),
            "rke2" => Some(Runtime::Rke2),
            _ => None,
        }
    }

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Runtime::K3s => "k3s",
            Runtime::Rke2 => "rke2",
        }
    }

    /// Where nodes join.
    pub(crate) fn supervisor_port(self) -> u16 {
        match self {
            Runtime::K3s => 6443,
            Runtime::Rke2 => 9345,
        }
    }

    /// Its program: a simulated one says nothing but its version.
    pub(crate) fn binary(self) -> String {
        format!("/usr/local/bin/{self}")
    }
}

impl fmt::Display for Runtime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A version of a distribution, such as `v1.34.2+k3s1`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Version(String);

impl Version {
    pub(crate) fn new(text: &str) -> Self {
        Version(text.trim().to_owned())
    }

    /// The version that an image's tag stands for.
    pub(crate) fn of_tag(runtime: Runtime, tag: &str) -> Option<Self> {
        let (kubernetes, release) = tag.rsplit_once('-')?;
        let good = kubernetes.starts_with("v1.") && release.starts_with(runtime.as_str());
        good.then(|| Version(format!("{kubernetes}+{release}")))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
