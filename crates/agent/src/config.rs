//! `config.yaml` and the connection info: what the installer leaves for the agent.
//!
//! Both hold, or lead to, what opens doors: a file that others may read or that somebody else owns is refused.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::fields::{Fields, Problem};

/// Where the configuration is unless the environment says otherwise.
pub const DEFAULT_PATH: &str = "/etc/rancher/agent/config.yaml";
/// Below it is what has no place of its own.
const VAR: &str = "/var/lib/rancher/agent";

/// Why a file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It cannot be read.
    #[error("cannot read {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// Others may read or write it.
    #[error("file {} had permission {mode:#05o} which was not expected 0600", path.display())]
    Mode {
        /// The file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// It is somebody else's.
    #[error("file {} is owned by {}:{}, not by {}:{}", path.display(), owner.0, owner.1, us.0, us.1)]
    Owner {
        /// The file.
        path: PathBuf,
        /// User and group that it has.
        owner: (u32, u32),
        /// User and group that it should have.
        us: (u32, u32),
    },
    /// Its name says neither JSON nor YAML.
    #[error("the name of {} has neither .json nor .yaml in it", path.display())]
    Format {
        /// The file.
        path: PathBuf,
    },
    /// It is not JSON or YAML.
    #[error("cannot parse {}: {message}", path.display())]
    Parse {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        message: String,
    },
    /// It says what it must not, or does not say what it must.
    #[error("{}: {}", path.display(), join(problems))]
    Invalid {
        /// The file.
        path: PathBuf,
        /// All that is wrong.
        problems: Vec<Problem>,
    },
}

fn join(problems: &[Problem]) -> String {
    problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

/// What the agent is to do, and where it keeps things.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Programs run below it; what is in it does not last.
    pub work_directory: PathBuf,
    /// Leave what programs leave there.
    pub preserve_work_directory: bool,
    /// Local plans are applied.
    pub local_enabled: bool,
    /// Where they are.
    pub local_plan_directory: PathBuf,
    /// Where a history of applied plans is kept; none: it is not.
    pub applied_plan_directory: Option<PathBuf>,
    /// The plan in the Secret is applied.
    pub remote_enabled: bool,
    /// Where the Secret is.
    pub connection_info_file: PathBuf,
    /// Image tarballs.
    pub images_directory: PathBuf,
    /// How registries are reached.
    pub agent_registries_file: PathBuf,
    /// Kubelet-style credential providers.
    pub credential_provider_config: PathBuf,
    /// Their programs.
    pub credential_provider_directory: PathBuf,
    /// Where installer and agent keep out of each other's way; none: they do not.
    pub interlock_directory: Option<PathBuf>,
    /// What has to survive the process. Rancher's agent has no such thing.
    pub state_directory: PathBuf,
}

impl Config {
    /// Reads a file that is already JSON or YAML. What is wrong comes with the value: some of it is only a warning.
    fn from_value(value: &Value) -> (Self, Vec<Problem>) {
        let mut fields = Fields::of(value);
        let path = |text: String, default: &str| {
            PathBuf::from(if text.is_empty() { default.to_owned() } else { text })
        };
        let some = |text: String| (!text.is_empty()).then(|| PathBuf::from(text));
        let work = fields.text("workDirectory");
        let default_state = match Path::new(&work).parent().filter(|parent| parent.is_absolute()) {
            Some(parent) => parent.join("state"),
            None => Path::new(VAR).join("state"),
        };
        let config = Config {
            work_directory: path(work, &format!("{VAR}/work")),
            preserve_work_directory: fields.flag("preserveWorkDirectory"),
            local_enabled: fields.flag("localEnabled"),
            local_plan_directory: fields.text("localPlanDirectory").into(),
            applied_plan_directory: some(fields.text("appliedPlanDirectory")),
            remote_enabled: fields.flag("remoteEnabled"),
            connection_info_file: fields.text("connectionInfoFile").into(),
            images_directory: path(fields.text("imagesDirectory"), &format!("{VAR}/images")),
            agent_registries_file: path(
                fields.text("agentRegistriesFile"),
                "/etc/rancher/agent/registries.yaml",
            ),
            credential_provider_config: path(
                fields.text("imageCredentialProviderConfig"),
                "/var/lib/rancher/credentialprovider/config.yaml",
            ),
            credential_provider_directory: path(
                fields.text("imageCredentialProviderBinDirectory"),
                "/var/lib/rancher/credentialprovider/bin",
            ),
            interlock_directory: some(fields.text("interlockDirectory")),
            state_directory: some(fields.text("stateDirectory")).unwrap_or(default_state),
        };
        let mut problems = fields.problems();
        config.check(&mut problems);
        (config, problems)
    }

    fn check(&self, problems: &mut Vec<Problem>) {
        if !self.local_enabled && !self.remote_enabled {
            problems.push(Problem::error(
                "remoteEnabled",
                "Required value: one of localEnabled and remoteEnabled must be true",
            ));
        }
        if self.remote_enabled && self.connection_info_file.as_os_str().is_empty() {
            problems.push(Problem::error("connectionInfoFile", "Required value: remoteEnabled is true"));
        }
        if self.local_enabled && self.local_plan_directory.as_os_str().is_empty() {
            problems.push(Problem::error("localPlanDirectory", "Required value: localEnabled is true"));
        }
        // All of it is removed again and again.
        if !self.work_directory.is_absolute() || self.work_directory.parent().is_none() {
            let said =
                format!("Invalid value: {:?}: must be an absolute path, and not /", self.work_directory);
            problems.push(Problem::error("workDirectory", &said));
        }
    }

    /// Reads the configuration.
    pub fn load(path: &Path) -> Result<Self, Error> {
        let (config, problems) = Config::from_value(&read(path)?);
        refuse(path, problems)?;
        Ok(config)
    }

    /// Checks the configuration; gives warnings.
    pub fn validate(path: &Path) -> Result<Vec<Problem>, Error> {
        let (config, problems) = Config::from_value(&read(path)?);
        let mut warnings = refuse(path, problems)?;
        if config.local_enabled && !config.local_plan_directory.is_dir() {
            let said = format!("{:?}: there is no such directory yet", config.local_plan_directory);
            warnings.push(Problem::warning("localPlanDirectory", &said));
        }
        Ok(warnings)
    }
}

/// Where the Secret is, and how to get at it.
#[derive(Clone, PartialEq, Eq)]
pub struct Connection {
    /// A kubeconfig, as text.
    pub kubeconfig: String,
    /// The Secret's namespace.
    pub namespace: String,
    /// The Secret's name.
    pub secret: String,
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connection")
            .field("namespace", &self.namespace)
            .field("secret", &self.secret)
            .finish_non_exhaustive()
    }
}

impl Connection {
    /// Reads connection info.
    pub fn load(path: &Path) -> Result<Self, Error> {
        Connection::from_value(path, &read(path)?)
    }

    fn from_value(path: &Path, value: &Value) -> Result<Self, Error> {
        let mut fields = Fields::of(value);
        let connection = Connection {
            kubeconfig: fields.text("kubeConfig"),
            namespace: fields.text("namespace"),
            secret: fields.text("secretName"),
        };
        let mut problems = fields.problems();
        let all = [
            ("kubeConfig", &connection.kubeconfig),
            ("namespace", &connection.namespace),
            ("secretName", &connection.secret),
        ];
        for (field, value) in all {
            if value.is_empty() && !problems.iter().any(|problem| problem.path == field) {
                problems.push(Problem::error(field, "Required value"));
            }
        }
        refuse(path, problems)?;
        Ok(connection)
    }
}

/// Gives the warnings if there is nothing worse.
pub(crate) fn refuse(path: &Path, problems: Vec<Problem>) -> Result<Vec<Problem>, Error> {
    match problems.iter().any(|problem| problem.is_error) {
        true => Err(Error::Invalid {
            path: path.to_owned(),
            problems: problems.into_iter().filter(|problem| problem.is_error).collect(),
        }),
        false => Ok(problems),
    }
}

/// Reads a file under the rules for all of them.
pub(crate) fn read(path: &Path) -> Result<Value, Error> {
    let unreadable = |source| Error::Read { path: path.to_owned(), source };
    let meta = fs::metadata(path).map_err(unreadable)?;
    let mode = meta.mode() & 0o7777;
    if mode != 0o600 {
        return Err(Error::Mode { path: path.to_owned(), mode });
    }
    let owner = (meta.uid(), meta.gid());
    let us = (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw());
    if owner != us {
        return Err(Error::Owner { path: path.to_owned(), owner, us });
    }
    parse(path, &fs::read_to_string(path).map_err(unreadable)?)
}

/// JSON or YAML, whichever the file's name says; `.json` anywhere in it is asked for first.
fn parse(path: &Path, text: &str) -> Result<Value, Error> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let wrong = |message: String| Error::Parse { path: path.to_owned(), message };
    if name.contains(".json") {
        return serde_json::from_str(text).map_err(|error| wrong(error.to_string()));
    }
    if name.contains(".yaml") {
        return serde_saphyr::from_str(text).map_err(|error| wrong(error.to_string()));
    }
    Err(Error::Format { path: path.to_owned() })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use serde_json::json;

    use super::*;

    #[test]
    fn defaults() {
        let (config, problems) =
            Config::from_value(&json!({"remoteEnabled": true, "connectionInfoFile": "/c.json"}));
        assert_eq!(problems, []);
        assert_eq!(config.work_directory, Path::new("/var/lib/rancher/agent/work"));
        assert_eq!(config.state_directory, Path::new("/var/lib/rancher/agent/state"));
        assert_eq!(config.images_directory, Path::new("/var/lib/rancher/agent/images"));
        assert_eq!(config.agent_registries_file, Path::new("/etc/rancher/agent/registries.yaml"));
        assert_eq!((config.interlock_directory, config.applied_plan_directory), (None, None));
    }

    #[test]
    fn state_is_beside_the_work_directory() {
        let (config, _) = Config::from_value(&json!({"WORKDIRECTORY": "/opt/agent/work"}));
        assert_eq!(config.state_directory, Path::new("/opt/agent/state"), "and keys are as Go reads them");
    }

    #[test]
    fn what_is_wrong() {
        let table = [
            (json!({}), "remoteEnabled: Required value: one of localEnabled and remoteEnabled must be true"),
            (json!({"remoteEnabled": true}), "connectionInfoFile: Required value: remoteEnabled is true"),
            (json!({"localEnabled": true}), "localPlanDirectory: Required value: localEnabled is true"),
            (
                json!({"localEnabled": true, "localPlanDirectory": "/p", "workDirectory": "/"}),
                "workDirectory: Invalid value: \"/\": must be an absolute path, and not /",
            ),
            (
                json!({"localEnabled": "yes", "remoteEnabled": true, "connectionInfoFile": "/c"}),
                "localEnabled: Invalid value: \"yes\": must be true or false",
            ),
            (json!([1]), "<root>: Invalid value: must be an object"),
        ];
        for (value, said) in table {
            let (_, problems) = Config::from_value(&value);
            assert!(problems.iter().any(|problem| problem.to_string() == said), "{value}: {problems:?}");
        }
    }

    #[test]
    fn formats_go_by_the_name() {
        for (name, text, good) in [
            ("c.yaml", "remoteEnabled: true", true),
            ("c.yaml.bak", "remoteEnabled: true", true),
            ("c.json", "{\"remoteEnabled\":true}", true),
            ("c.yaml.json", "remoteEnabled: true", false),
            ("c.yml", "remoteEnabled: true", false),
            ("c", "{}", false),
        ] {
            assert_eq!(parse(Path::new(name), text).is_ok(), good, "{name}");
        }
    }

    #[test]
    fn the_file_is_private() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("info.json");
        let info = json!({"kubeConfig": "k", "Namespace": "n", "secretname": "s", "more": 1});
        fs::write(&path, info.to_string()).unwrap();
        for (mode, good) in [(0o600, true), (0o644, false), (0o400, false), (0o700, false)] {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            assert_eq!(Connection::load(&path).is_ok(), good, "{mode:o}");
        }
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        fs::write(&path, json!({"kubeConfig": "", "namespace": 3}).to_string()).unwrap();
        let error = Connection::load(&path).unwrap_err().to_string();
        for said in [
            "kubeConfig: Required value",
            "namespace: Invalid value: 3: must be a string",
            "secretName: Required value",
        ] {
            assert!(error.contains(said), "{error}");
        }
    }
}
