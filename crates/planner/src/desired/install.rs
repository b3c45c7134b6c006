//! The installer, its stamps, and scripts.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use plan::document::{File, Instruction, OneTimeInstruction, PeriodicInstruction};
use sha2::{Digest, Sha256};

use super::config::config_path;
use super::{Context, dynamic};
use crate::snapshot::Machine;

/// Name of the periodic instruction that asks etcd for its members.
pub(crate) const CAPTURE_ADDRESS: &str = "capture-address";
/// Name of the periodic instruction that reads the member's own name.
pub(crate) const ETCD_NAME: &str = "etcd-name";

const IDEMPOTENT_SH: &str = include_str!("scripts/idempotent.sh");
const IDEMPOTENT_PS1: &str = include_str!("scripts/idempotent.ps1");
const PERMISSIONS_PS1: &str = include_str!("scripts/permissions.ps1");

/// Where Windows keeps the scripts of plans.
const WINDOWS_DIR: &str = "c:\\var\\lib\\rancher\\capr";

/// What decides about restarts and drains.
pub(super) struct Stamps {
    pub(super) restart: String,
    pub(super) drain: String,
}

/// Names of the variables that carry the stamps: restart, drain.
pub(crate) fn stamp_names(machine: &Machine) -> (&'static str, &'static str) {
    if machine.is_windows() {
        ("WINS_RESTART_STAMP", "WINS_DRAIN_HASH")
    } else {
        ("RESTART_STAMP", "DRAIN_HASH")
    }
}

pub(super) fn image(context: &Context<'_>, registry: &str) -> String {
    let prefix = &context.cluster.settings.installer_image;
    from_registry(registry, &format!("{prefix}{}:{}", context.runtime(), context.version.tag()))
}

/// An image, out of the registry that all images come from, if there is one.
pub(super) fn from_registry(registry: &str, image: &str) -> String {
    if registry.is_empty() { image.to_owned() } else { format!("{registry}/{image}") }
}

/// Over the generation, the image and every file that is not dynamic; for the drain, the config without what only says
/// where the node joins.
pub(super) fn stamps(context: &Context<'_>, image: &str, files: &[File], for_drain: Option<&str>) -> Stamps {
    let config = config_path(context.runtime());
    let generation = context.cluster.spec.configuration.provision_generation.to_string();
    let mut restart = Sha256::new();
    restart.update(&generation);
    restart.update(image);
    let mut drain = restart.clone();
    for file in files.iter().filter(|file| !file.dynamic) {
        restart.update(&file.path);
        restart.update(&file.content);
        drain.update(&file.path);
        match for_drain {
            Some(content) if file.path == config => drain.update(BASE64_STANDARD.encode(content)),
            _ => drain.update(&file.content),
        }
    }
    let generation = context.cluster.config_generation.to_string();
    restart.update(&generation);
    drain.update(&generation);
    Stamps { restart: hex(restart), drain: hex(drain) }
}

fn hex(hash: Sha256) -> String {
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

pub(super) fn instructions(context: &Context<'_>, image: String, stamps: &Stamps) -> Vec<OneTimeInstruction> {
    let windows = context.machine.is_windows();
    let runtime = context.runtime().as_str().to_uppercase();
    let (restart, drain) = stamp_names(context.machine);
    let mut env = vec![format!("{restart}={}", stamps.restart), format!("{drain}={}", stamps.drain)];
    if windows {
        env.push(format!("INSTALL_{runtime}_VERSION={}", context.version.as_str()));
    }
    let own = context.cluster.spec.agent_env_vars.iter().filter(|variable| !variable.value.is_empty());
    env.extend(own.map(|variable| format!("{}={}", variable.name, variable.value)));
    if !windows {
        env.push(format!("{runtime}_DATA_DIR={}", context.data_dir));
    }
    if context.roles.is_only_worker() {
        env.push(format!("INSTALL_{runtime}_EXEC=agent"));
    }
    let (command, args) =
        if windows { ("powershell.exe", ["-File", "run.ps1"]) } else { ("sh", ["-c", "run.sh"]) };
    let common = Instruction {
        name: "install".into(),
        image,
        env,
        args: args.map(String::from).into(),
        command: command.into(),
        ..Instruction::default()
    };
    let mut all = vec![OneTimeInstruction { common, ..OneTimeInstruction::default() }];
    if windows {
        let common = Instruction {
            name: "set-permissions".into(),
            command: command.into(),
            args: vec!["-File".into(), permissions_path()],
            ..Instruction::default()
        };
        all.push(OneTimeInstruction { common, ..OneTimeInstruction::default() });
    }
    all
}

fn permissions_path() -> String {
    format!("{WINDOWS_DIR}\\set-permissions.ps1")
}

/// Scripts that instructions of this and later plans use.
pub(super) fn scripts(context: &Context<'_>) -> Vec<File> {
    if context.machine.is_windows() {
        let idempotent = dynamic(format!("{WINDOWS_DIR}\\idempotence\\idempotent.ps1"), IDEMPOTENT_PS1);
        return vec![File { minor: true, ..idempotent }, dynamic(permissions_path(), PERMISSIONS_PS1)];
    }
    let path = format!("{}/idempotence/idempotent.sh", context.provisioning_dir());
    vec![File { minor: true, ..dynamic(path, IDEMPOTENT_SH) }]
}

/// An init node without a control plane has no Node object that would tell its address: etcd is asked.
pub(super) fn periodic(context: &Context<'_>) -> Vec<PeriodicInstruction> {
    let disabled = api::catalogue::annotations::JOIN_URL_AUTOSET_DISABLED;
    let autoset = !context.machine.bootstrap.annotations.contains_key(disabled);
    if !context.placement.init || !context.roles.is_only_etcd() || !autoset {
        return Vec::new();
    }
    let (directory, port) = (&context.data_dir, context.runtime().supervisor_port());
    let ask = format!(
        "curl --fail --silent --show-error --cacert {directory}/server/tls/server-ca.crt \
         https://localhost:{port}/db/info | grep clientURLs"
    );
    let instruction = |name: &str, script: String| PeriodicInstruction {
        common: Instruction {
            name: name.into(),
            command: "sh".into(),
            args: vec!["-c".into(), script],
            ..Instruction::default()
        },
        period_seconds: 600,
        ..PeriodicInstruction::default()
    };
    vec![
        instruction(CAPTURE_ADDRESS, ask),
        instruction(ETCD_NAME, format!("cat {directory}/server/db/etcd/name")),
    ]
}
