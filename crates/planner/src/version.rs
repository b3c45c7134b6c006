//! Versions of distributions.

use std::fmt;
use std::str::FromStr;

/// Which distribution.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Runtime {
    /// K3s.
    K3s,
    /// RKE2.
    Rke2,
}

impl Runtime {
    /// `k3s` or `rke2`, as paths and images spell it.
    pub fn as_str(self) -> &'static str {
        match self {
            Runtime::K3s => "k3s",
            Runtime::Rke2 => "rke2",
        }
    }

    /// The port at which servers take others in.
    pub fn supervisor_port(self) -> u16 {
        match self {
            Runtime::K3s => 6443,
            Runtime::Rke2 => 9345,
        }
    }
}

impl fmt::Display for Runtime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A distribution's version, such as `v1.34.2+rke2r1`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    text: String,
    numbers: [u32; 3],
}

/// Text that is no version.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a version such as v1.34.2+rke2r1")]
pub struct NotAVersion(String);

impl Version {
    /// As it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// K3s if the text says so, RKE2 otherwise.
    pub fn runtime(&self) -> Runtime {
        if self.text.contains("k3s") { Runtime::K3s } else { Runtime::Rke2 }
    }

    /// The second number.
    pub fn minor(&self) -> u32 {
        self.numbers[1]
    }

    /// Major, minor and patch.
    pub fn numbers(&self) -> [u32; 3] {
        self.numbers
    }

    /// As a tag of an image: no `+` is allowed there.
    pub fn tag(&self) -> String {
        self.text.replace('+', "-")
    }
}

impl FromStr for Version {
    type Err = NotAVersion;

    fn from_str(text: &str) -> Result<Self, NotAVersion> {
        let wrong = || NotAVersion(text.to_owned());
        let core = text.strip_prefix('v').unwrap_or(text).split(['+', '-']).next().unwrap_or_default();
        let mut parts = core.split('.').map(str::parse::<u32>);
        let mut numbers = [0; 3];
        for number in &mut numbers {
            *number = parts.next().and_then(Result::ok).ok_or_else(wrong)?;
        }
        if parts.next().is_some() {
            return Err(wrong());
        }
        Ok(Version { text: text.to_owned(), numbers })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read() {
        let version: Version = "v1.34.2+rke2r1".parse().unwrap();
        assert_eq!((version.numbers(), version.runtime()), ([1, 34, 2], Runtime::Rke2));
        assert_eq!(version.tag(), "v1.34.2-rke2r1");
        assert_eq!("v1.30.1-rc1+k3s1".parse::<Version>().unwrap().runtime(), Runtime::K3s);
        for text in ["", "v1.2", "1.2.3.4", "vx.1.2", "v1.2.-3"] {
            assert!(text.parse::<Version>().is_err(), "{text}");
        }
    }
}
