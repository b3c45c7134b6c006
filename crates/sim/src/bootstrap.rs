//! What a machine's bootstrap script says: whom to call, with what, and as whom. A machine knows nothing else.

use std::collections::BTreeMap;

use crate::Os;

/// Why a script cannot be followed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// It does not set something that the installer cannot do without.
    #[error("the bootstrap script does not set {0}")]
    Missing(&'static str),
    /// It sets something to what it cannot be.
    #[error("the bootstrap script sets {name} to {value:?}: {problem}")]
    Invalid {
        /// The variable.
        name: &'static str,
        /// Its value.
        value: String,
        /// What is wrong.
        problem: &'static str,
    },
}

/// What a machine tells its server of itself, and how it finds it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Registration {
    /// `CATTLE_SERVER`.
    pub server: String,
    /// `CATTLE_TOKEN`.
    pub token: String,
    /// `CATTLE_CA_CHECKSUM`: SHA-256 of what `/cacerts` answers, in hex; empty if the system vouches for the server.
    pub ca_checksum: String,
    /// `CATTLE_ROLE_ETCD`.
    pub etcd: bool,
    /// `CATTLE_ROLE_CONTROLPLANE`.
    pub control_plane: bool,
    /// `CATTLE_ROLE_WORKER`.
    pub worker: bool,
    /// `CATTLE_ID`; made up and kept by the machine if it is empty.
    pub id: String,
    /// `CATTLE_NODE_NAME`.
    pub node_name: String,
    /// `CATTLE_ADDRESS`.
    pub address: String,
    /// `CATTLE_INTERNAL_ADDRESS`.
    pub internal_address: String,
    /// `CATTLE_LABELS`, `key=value` separated by commas.
    pub labels: String,
    /// `CATTLE_TAINTS`, `key=value:effect` separated by commas.
    pub taints: String,
    /// `CATTLE_AGENT_VAR_DIR`; empty for the usual one.
    pub var_dir: String,
    /// What else the script exports: the agent's environment.
    pub environment: Vec<(String, String)>,
}

impl Registration {
    /// Reads a bootstrap script, as made for Linux or for Windows.
    ///
    /// # Errors
    /// If the installer could not do anything with it.
    pub fn parse(script: &str) -> Result<Self, Error> {
        let variables = match Os::of_script(script) {
            Os::Linux => shell(script),
            Os::Windows => powershell(script),
        };
        Registration::from_variables(variables)
    }

    fn from_variables(mut variables: BTreeMap<String, String>) -> Result<Self, Error> {
        let mut take = |name: &str| variables.remove(name).unwrap_or_default();
        let is_true = |text: String| text.eq_ignore_ascii_case("true");
        let mut registration = Registration {
            server: take("CATTLE_SERVER").trim_end_matches('/').to_owned(),
            token: take("CATTLE_TOKEN"),
            ca_checksum: take("CATTLE_CA_CHECKSUM").to_lowercase(),
            etcd: is_true(take("CATTLE_ROLE_ETCD")),
            control_plane: is_true(take("CATTLE_ROLE_CONTROLPLANE")),
            worker: is_true(take("CATTLE_ROLE_WORKER")),
            id: take("CATTLE_ID"),
            node_name: take("CATTLE_NODE_NAME"),
            address: take("CATTLE_ADDRESS"),
            internal_address: take("CATTLE_INTERNAL_ADDRESS"),
            labels: take("CATTLE_LABELS"),
            taints: take("CATTLE_TAINTS"),
            var_dir: take("CATTLE_AGENT_VAR_DIR"),
            environment: Vec::new(),
        };
        let none = is_true(take("CATTLE_ROLE_NONE"));
        registration.environment = variables.into_iter().collect();
        if none {
            (registration.etcd, registration.control_plane, registration.worker) = (false, false, false);
        }
        registration.check(none)?;
        Ok(registration)
    }

    fn check(&self, none: bool) -> Result<(), Error> {
        if self.server.is_empty() {
            return Err(Error::Missing("CATTLE_SERVER"));
        }
        if self.token.is_empty() {
            return Err(Error::Missing("CATTLE_TOKEN"));
        }
        let url: Option<http::Uri> = self.server.parse().ok();
        if !url.is_some_and(|url| matches!(url.scheme_str(), Some("http" | "https")) && url.host().is_some())
        {
            let problem = "must be an http or https URL";
            return Err(Error::Invalid { name: "CATTLE_SERVER", value: self.server.clone(), problem });
        }
        if !none && !self.etcd && !self.control_plane && !self.worker {
            return Err(Error::Missing("CATTLE_ROLE_ETCD, _CONTROLPLANE, _WORKER or _NONE"));
        }
        Ok(())
    }

    /// The script that says this, for machines that somebody registers by hand.
    pub fn script(&self) -> String {
        let flag = |set: bool| if set { "true" } else { "" };
        let known = [
            ("CATTLE_SERVER", self.server.as_str()),
            ("CATTLE_TOKEN", &self.token),
            ("CATTLE_CA_CHECKSUM", &self.ca_checksum),
            ("CATTLE_ROLE_ETCD", flag(self.etcd)),
            ("CATTLE_ROLE_CONTROLPLANE", flag(self.control_plane)),
            ("CATTLE_ROLE_WORKER", flag(self.worker)),
            ("CATTLE_ROLE_NONE", flag(!self.etcd && !self.control_plane && !self.worker)),
            ("CATTLE_ID", &self.id),
            ("CATTLE_NODE_NAME", &self.node_name),
            ("CATTLE_ADDRESS", &self.address),
            ("CATTLE_INTERNAL_ADDRESS", &self.internal_address),
            ("CATTLE_LABELS", &self.labels),
            ("CATTLE_TAINTS", &self.taints),
            ("CATTLE_AGENT_VAR_DIR", &self.var_dir),
        ];
        let more = self.environment.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        let set = known.into_iter().chain(more).filter(|(_, value)| !value.is_empty());
        let lines = set.map(|(name, value)| format!("{name}='{}'\n", value.replace('\'', "'\\''")));
        format!("#!/usr/bin/env sh\n{}\n", lines.collect::<String>())
    }
}

impl Os {
    /// Whom a script is for.
    pub(crate) fn of_script(script: &str) -> Self {
        if script.starts_with("#!") { Os::Linux } else { Os::Windows }
    }
}

/// The assignments at the head of a shell script: the empty line before the installer ends them.
fn shell(script: &str) -> BTreeMap<String, String> {
    let mut variables = BTreeMap::new();
    let mut rest = script.split_once('\n').map_or("", |(_, rest)| rest);
    while let Some((name, after)) = rest.strip_prefix("export ").unwrap_or(rest).split_once('=') {
        let is_name =
            !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        if !is_name {
            break;
        }
        let (value, after) = word(after);
        variables.insert(name.to_owned(), value);
        rest = after.strip_prefix('\n').unwrap_or(after);
        if rest.starts_with('\n') {
            break;
        }
    }
    variables
}

/// One word of a shell, quotes taken off, and what comes after it. What is in single quotes may span lines.
fn word(text: &str) -> (String, &str) {
    let mut value = String::new();
    let mut rest = text;
    loop {
        let Some(first) = rest.chars().next() else { return (value, rest) };
        let (piece, after) = match first {
            '\n' | ' ' | ';' => return (value, rest),
            '\'' | '"' => rest[1..].split_once(first).unwrap_or((&rest[1..], "")),
            '\\' => {
                let end = 1 + rest[1..].chars().next().map_or(0, char::len_utf8);
                (&rest[1..end], &rest[end..])
            }
            _ => {
                let end = rest.find(['\n', ' ', ';', '\'', '"', '\\']).unwrap_or(rest.len());
                rest.split_at(end)
            }
        };
        value.push_str(piece);
        rest = after;
    }
}

/// Assignments to the environment, wherever they stand.
fn powershell(script: &str) -> BTreeMap<String, String> {
    let assignment = |line: &str| {
        let (name, value) = line.trim().strip_prefix("$env:")?.split_once('=')?;
        let value = value.trim().strip_prefix('\'')?.strip_suffix('\'')?;
        Some((name.trim().to_owned(), value.replace("''", "'")))
    };
    script.lines().filter_map(assignment).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_bootstrap_provider_writes() {
        let script = "#!/usr/bin/env sh\nexport HTTP_PROXY='http://p'\nexport STRICT_VERIFY='false'\n\
             CATTLE_AGENT_BINARY_BASE_URL='https://h.example/assets'\nCATTLE_SERVER='https://h.example/'\n\
             CATTLE_CA_CHECKSUM='AB'\nCATTLE_ROLE_NONE='true'\nCATTLE_TOKEN='it'\\''s'\n\n\
             #!/bin/sh\nCATTLE_TOKEN=other\n";
        let read = Registration::parse(script).unwrap();
        assert_eq!((read.server.as_str(), read.token.as_str()), ("https://h.example", "it's"));
        assert_eq!(read.ca_checksum, "ab");
        assert!(!read.etcd && !read.control_plane && !read.worker);
        let names: Vec<_> = read.environment.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["CATTLE_AGENT_BINARY_BASE_URL", "HTTP_PROXY", "STRICT_VERIFY"]);
    }

    #[test]
    fn what_windows_gets() {
        let script = "function Invoke-WinsInstaller {\n}\n\n$env:CATTLE_SERVER = 'https://h'\n\
             $env:CATTLE_ROLE_NONE = 'true'\n$env:CATTLE_TOKEN = 'it''s'\n\nInvoke-WinsInstaller\n";
        let read = Registration::parse(script).unwrap();
        assert_eq!((read.server.as_str(), read.token.as_str()), ("https://h", "it's"));
    }

    #[test]
    fn it_reads_what_it_writes() {
        let registration = Registration {
            server: "https://h:8443".into(),
            token: "a'b c".into(),
            etcd: true,
            labels: "a=b,c=d".into(),
            node_name: "n1".into(),
            ..Registration::default()
        };
        assert_eq!(Registration::parse(&registration.script()), Ok(registration));
    }

    #[test]
    fn what_is_missing_or_wrong() {
        for (script, said) in [
            ("#!/bin/sh\nCATTLE_TOKEN=t\n", "the bootstrap script does not set CATTLE_SERVER"),
            ("#!/bin/sh\nCATTLE_SERVER=https://h\n", "the bootstrap script does not set CATTLE_TOKEN"),
            (
                "#!/bin/sh\nCATTLE_SERVER=https://h\nCATTLE_TOKEN=t\n",
                "the bootstrap script does not set CATTLE_ROLE_ETCD, _CONTROLPLANE, _WORKER or _NONE",
            ),
            (
                "#!/bin/sh\nCATTLE_SERVER=h\nCATTLE_TOKEN=t\nCATTLE_ROLE_NONE=true\n",
                "the bootstrap script sets CATTLE_SERVER to \"h\": must be an http or https URL",
            ),
        ] {
            assert_eq!(Registration::parse(script).unwrap_err().to_string(), said);
        }
    }
}
