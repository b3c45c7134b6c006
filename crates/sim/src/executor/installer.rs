//! The distributions' installers: `run.sh` of their images.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::distro::{Process, Role, Runtime, Version};
use crate::executor::Said;
use crate::machine::{Machine, Os};

/// Installs a version, and starts it anew if the stamp is another one than the last.
pub(super) async fn run(
    machine: &Arc<Machine>,
    runtime: Runtime,
    version: &Version,
    env: &BTreeMap<&str, &str>,
) -> Said {
    machine.pause(|delays| delays.install).await;
    if machine.faults().take_failing_install() {
        machine.say(format!("installer of {runtime} fails"));
        return Said::ill(1, "simulated: the installer fails");
    }
    match install(machine, runtime, version, env).await {
        Ok(said) => Said::well(said),
        Err(why) => Said::ill(1, why),
    }
}

async fn install(
    machine: &Arc<Machine>,
    runtime: Runtime,
    version: &Version,
    env: &BTreeMap<&str, &str>,
) -> Result<String, String> {
    let of = |name: &str| env.get(name).copied().unwrap_or_default();
    let upper = runtime.as_str().to_uppercase();
    let windows = machine.os() == Os::Windows;
    let stamp = if windows { of("WINS_RESTART_STAMP") } else { of("RESTART_STAMP") };
    let role = match of(&format!("INSTALL_{upper}_EXEC")) {
        "agent" => Role::Agent,
        _ if windows => Role::Agent,
        "" | "server" => Role::Server,
        other => return Err(format!("INSTALL_{upper}_EXEC={other}: unknown")),
    };
    let process = Process { runtime, role };
    let data_dir = match of(&format!("{upper}_DATA_DIR")) {
        "" => format!("/var/lib/rancher/{runtime}"),
        directory => directory.to_owned(),
    };
    let stamp_file = match runtime {
        Runtime::K3s => format!("{data_dir}/restart_stamp"),
        Runtime::Rke2 => format!("{data_dir}/system-agent-installer/rke2_restart_stamp"),
    };
    let failed = |error: std::io::Error| error.to_string();
    machine.write(runtime.binary(), version.as_str()).map_err(failed)?;
    // A server that was an agent is none any more, and the other way round.
    let other = Process { runtime, role: role.other() };
    if machine.read(other.unit_file()).is_some() {
        machine.systemd.stop(other.unit()).await;
        std::fs::remove_file(machine.root.locate(other.unit_file())).map_err(failed)?;
    }
    machine.write(process.unit_file(), "[Service]\nRestart=always\nRestartSec=5s\n").map_err(failed)?;
    machine.files_changed.notify_one();
    let known = machine.read(&stamp_file).is_some_and(|known| known.trim() == stamp && !stamp.is_empty());
    if of(&format!("INSTALL_{upper}_SKIP_START")) == "true" {
        return Ok(format!("{runtime} {version} is installed and not started\n"));
    }
    if known && machine.systemd.is_active(process.unit()) {
        return Ok(format!("{runtime} {version} runs already with this stamp\n"));
    }
    // RKE2's does not wait for its service, and remembers the stamp before it; K3s's waits, and remembers it after.
    if runtime == Runtime::Rke2 {
        machine.write(&stamp_file, stamp).map_err(failed)?;
    }
    machine.say(format!("starts {runtime} {version}"));
    let started = machine.systemd.restart(machine, process.unit()).await;
    if runtime == Runtime::K3s {
        let how = started.await.unwrap_or_else(|_| Err("canceled".into()));
        how.map_err(|why| format!("Job for {}.service failed: {why}", process.unit()))?;
        machine.write(&stamp_file, stamp).map_err(failed)?;
    }
    Ok(format!("{runtime} {version} is started\n"))
}
