//! `herdsman ssh MACHINE`: a shell on a machine, with the key that its driver kept.

use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, anyhow, bail};
use api::catalogue::secrets::keys;
use api::names::{InfraMachine, machine_state_secret};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kit::KindId;
use serde_json::Value;

use super::ask::Ask;
use super::kinds;
use super::target::{Target, block_on};

/// What can be said on the command line.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Which machine: NAME or machine/NAME
    machine: String,
    /// A command to run there instead of a shell
    #[arg(trailing_var_arg = true, value_name = "COMMAND")]
    command: Vec<String>,
    #[command(flatten)]
    target: Target,
}

/// Becomes ssh. The key is in a file of this user while it runs.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let name = arguments.machine.strip_prefix("machine/").unwrap_or(&arguments.machine);
    let packed = block_on(async {
        let ask = Ask::new(&arguments.target).await?;
        state(&ask, name).await
    })?;
    let record = machine::archive::find(&packed, "config.json")
        .ok_or_else(|| anyhow!("the driver of machine {name:?} has not written down its server yet"))?;
    let record: Value = serde_json::from_slice(&record).context("what the driver has written down")?;
    let way = Way::of(&record["Driver"]).with_context(|| format!("machine {name:?}"))?;
    let directory = tempfile::tempdir()?;
    let key = match machine::archive::find(&packed, &way.key) {
        Some(key) if !way.key.is_empty() => {
            let path = directory.path().join("key");
            apiserver::files::replace_secret(&path, &key)?;
            Some(path)
        }
        _ => None,
    };
    let host_key = machine::archive::find(&packed, machine::ssh::NOTE);
    let known = match host_key.as_deref().and_then(machine::ssh::known_key) {
        Some(host_key) => {
            let path = directory.path().join("known_hosts");
            std::fs::write(&path, format!("{name} {host_key}\n"))?;
            Some(path)
        }
        None => None,
    };
    let mut ssh = Command::new("ssh");
    ssh.args(trusting(name, known.as_deref())).args(way.words(key.as_deref())).args(&arguments.command);
    if key.is_none() && known.is_none() {
        return Err(ssh.exec()).context("cannot run ssh");
    }
    // Its files have to outlive ssh.
    let status = ssh.status().context("cannot run ssh")?;
    drop(directory);
    std::process::exit(status.code().unwrap_or(1));
}

/// What the driver kept of a machine's server.
async fn state(ask: &Ask, name: &str) -> anyhow::Result<Vec<u8>> {
    let machine = ask.object(kinds::find("machine")?, name).await?;
    let infra = machine["spec"]["infrastructureRef"]["name"].as_str().unwrap_or_default();
    let secret = machine_state_secret(InfraMachine(infra));
    let found = ask.find(&KindId::new("", "v1", "Secret", "secrets"), &secret).await?;
    let Some(found) = found else {
        bail!("machine {name:?} was not made by a driver: its keys are not known here");
    };
    let value = found["data"][keys::EXTRACTED_CONFIG].as_str().unwrap_or_default();
    STANDARD.decode(value).with_context(|| format!("Secret {secret}"))
}

/// Words for ssh to take the host that the driver has seen and no other; where it has not, ssh's user decides as ever.
fn trusting(name: &str, known: Option<&Path>) -> Vec<String> {
    let Some(known) = known else { return Vec::new() };
    let options = [
        format!("HostKeyAlias={name}"),
        format!("UserKnownHostsFile={}", known.display()),
        "GlobalKnownHostsFile=/dev/null".to_owned(),
        "StrictHostKeyChecking=yes".to_owned(),
    ];
    options.into_iter().flat_map(|option| ["-o".to_owned(), option]).collect()
}

/// How a server is reached.
#[derive(Debug, PartialEq, Eq)]
struct Way {
    user: String,
    host: String,
    port: u64,
    /// Name of the private key's file in the archive; empty if there is none.
    key: String,
}

impl Way {
    /// By what a driver has written down of a server.
    fn of(driver: &Value) -> anyhow::Result<Self> {
        let text = |field: &str| driver[field].as_str().unwrap_or_default().to_owned();
        let (host, user) = (text("IPAddress"), text("SSHUser"));
        if host.is_empty() {
            bail!("its server has no address yet");
        }
        if user.is_empty() {
            bail!("its driver says nothing of SSH: simulated machines and containers have none");
        }
        let path = text("SSHKeyPath");
        let key = Path::new(&path).file_name().map(|name| name.to_string_lossy().into_owned());
        Ok(Way { user, host, port: driver["SSHPort"].as_u64().unwrap_or(22), key: key.unwrap_or_default() })
    }

    /// ssh's words.
    fn words(&self, key: Option<&Path>) -> Vec<String> {
        let mut words = vec!["-p".to_owned(), self.port.to_string()];
        if let Some(key) = key {
            words.extend(["-i".into(), key.display().to_string(), "-o".into(), "IdentitiesOnly=yes".into()]);
        }
        words.push(format!("{}@{}", self.user, self.host));
        words
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_way_is_what_the_driver_wrote_down() {
        let driver =
            json!({"IPAddress": "10.0.0.1", "SSHUser": "root", "SSHPort": 2222, "SSHKeyPath": "/x/id_rsa"});
        let way = Way::of(&driver).unwrap();
        assert_eq!(way.key, "id_rsa");
        assert_eq!(
            way.words(Some(Path::new("/tmp/key"))),
            ["-p", "2222", "-i", "/tmp/key", "-o", "IdentitiesOnly=yes", "root@10.0.0.1"]
        );
        let simulated = Way::of(&json!({"IPAddress": "10.42.0.1"})).unwrap_err().to_string();
        assert!(simulated.contains("says nothing of SSH"), "{simulated}");
        assert!(Way::of(&json!({"SSHUser": "root"})).unwrap_err().to_string().contains("no address"));
    }

    #[test]
    fn a_host_that_was_seen_is_the_only_one_that_is_taken() {
        assert!(trusting("m", None).is_empty());
        let words = trusting("m", Some(Path::new("/tmp/known")));
        assert!(words.contains(&"HostKeyAlias=m".to_owned()), "{words:?}");
        assert!(words.contains(&"StrictHostKeyChecking=yes".to_owned()), "{words:?}");
    }
}
