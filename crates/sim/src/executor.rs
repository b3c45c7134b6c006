//! Programs on a simulated machine: those that plans run. Whatever else is asked for is not found, loudly.

mod installer;
mod script;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use agent::machine::{Ended, Executor, Later, Program};

use crate::images;
use crate::machine::Machine;
use crate::systemd::AGENT;

/// Runs programs.
pub(crate) struct Shell {
    machine: Arc<Machine>,
    process: u32,
}

/// What a program said, and its code.
pub(crate) struct Said {
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    pub(crate) code: i64,
}

impl Said {
    pub(crate) fn well(stdout: impl Into<String>) -> Self {
        Said { stdout: stdout.into(), stderr: String::new(), code: 0 }
    }

    pub(crate) fn ill(code: i64, stderr: impl Into<String>) -> Self {
        Said { stdout: String::new(), stderr: format!("{}\n", stderr.into()), code }
    }

    fn ended(self) -> Ended {
        let mut combined = self.stdout.clone().into_bytes();
        combined.extend(self.stderr.bytes());
        Ended { stdout: self.stdout.into(), stderr: self.stderr.into(), combined, exit_code: self.code }
    }
}

/// A command line, with what it finds around it.
pub(crate) struct Call<'a> {
    pub(crate) command: &'a str,
    pub(crate) args: Vec<&'a str>,
    pub(crate) env: &'a BTreeMap<&'a str, &'a str>,
    pub(crate) directory: &'a Path,
}

impl Shell {
    pub(crate) fn new(machine: Arc<Machine>, process: u32) -> Self {
        Shell { machine, process }
    }

    /// The program's name without its directory says what it is.
    pub(crate) async fn call(&self, call: Call<'_>) -> Said {
        let name = call.command.rsplit('/').next().unwrap_or_default();
        match (name, call.args.as_slice()) {
            ("sh", ["-c", "run.sh"]) | ("powershell.exe", ["-File", "run.ps1"]) | ("run.sh", []) => {
                match images::staged(call.directory) {
                    Some((runtime, version)) => {
                        installer::run(&self.machine, runtime, &version, call.env).await
                    }
                    None => Said::ill(127, format!("{name}: run.sh: not found")),
                }
            }
            ("powershell.exe", ["-File", path]) if path.ends_with("set-permissions.ps1") => Said::well(""),
            ("sh", ["-c", text]) => script::run(&self.machine, text),
            ("sh", ["-x", path, rest @ ..] | [path, rest @ ..]) if path.ends_with("/idempotent.sh") => {
                Box::pin(self.once(rest, &call)).await
            }
            ("systemctl", args) => self.systemctl(args).await,
            ("true", _) => Said::well(""),
            _ => Said::ill(127, format!("{}: not found; a simulated machine does not have it", call.command)),
        }
    }

    /// `idempotent.sh KEY VALUE-HASH COMMAND-HASH COMMAND DIRECTORY [ARGUMENT...]`
    async fn once(&self, args: &[&str], call: &Call<'_>) -> Said {
        let [key, value, hash, command, directory, rest @ ..] = args else {
            return Said::ill(2, "idempotent.sh: too few arguments");
        };
        let mark = format!("{directory}/idempotence/{key}/{hash}/{value}/done");
        if self.machine.read(&mark).is_some() {
            return Said::well(format!("{key}: done before for this value\n"));
        }
        let inner = Call { command, args: rest.to_vec(), env: call.env, directory: call.directory };
        let said = self.call(inner).await;
        match self.machine.write(&mark, "") {
            Err(error) if said.code == 0 => Said::ill(1, format!("{mark}: {error}")),
            _ => said,
        }
    }

    async fn systemctl(&self, args: &[&str]) -> Said {
        let words: Vec<&str> = args.iter().copied().filter(|word| !word.starts_with("--")).collect();
        let systemd = &self.machine.systemd;
        let (verb, units) = words.split_first().map_or(("", &[][..]), |(verb, units)| (*verb, units));
        let unit = units.first().map_or("", |unit| unit.strip_suffix(".service").unwrap_or(unit));
        match verb {
            "daemon-reload" | "enable" | "reset-failed" => Said::well(""),
            "is-active" if systemd.is_active(unit) => Said::well("active\n"),
            "is-active" => Said { stdout: "inactive\n".into(), stderr: String::new(), code: 3 },
            "stop" => {
                systemd.stop(unit).await;
                Said::well("")
            }
            // The program that asks would be killed by it.
            "start" | "restart" if unit == AGENT => Said::ill(1, "the agent does not restart itself here"),
            "start" if systemd.is_active(unit) => Said::well(""),
            "start" | "restart" => {
                let started = systemd.restart(&self.machine, unit).await;
                match started.await {
                    Ok(Ok(())) => Said::well(""),
                    Ok(Err(why)) => Said::ill(1, format!("Job for {unit}.service failed: {why}")),
                    Err(_) => Said::ill(1, format!("Job for {unit}.service canceled.")),
                }
            }
            _ => Said::ill(1, format!("systemctl: unknown command {verb:?}")),
        }
    }
}

impl Executor for Shell {
    fn run<'a>(&'a self, program: &'a Program) -> Later<'a, Ended> {
        Box::pin(async move {
            let env = program.env.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
            let args = program.args.iter().map(String::as_str).collect();
            let call = Call { command: &program.command, args, env: &env, directory: &program.directory };
            let said = self.call(call).await;
            if said.code == 127 {
                self.machine.say(format!("{} is asked for, which is not there", program.command));
            }
            said.ended()
        })
    }

    fn is_alive(&self, process: u32) -> bool {
        process == self.process
    }
}
