//! The command. Its arguments are few: reading them by hand is less than a library for it adds to the binary.

use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use clock::{Entropy, SystemClock, SystemEntropy};
use plan::agent::Outcome;
use plan::output::Outputs;
use plan::{Document, Severity};
use tokio::signal::unix::{SignalKind, signal};

use crate::apply::Applier;
use crate::config::{self, Config, Connection};
use crate::daemon::{self, End};
use crate::kubeconfig::Kubeconfig;
use crate::log;
use crate::machine::{Images, Machine};
use crate::tunnel;
use crate::update;

const USAGE: &str = "\
usage: herdsman-agent <command>

  run                        watch the plan Secret (and local plans) and apply; `sentinel` is the same
  apply FILE                 apply a plan once, and print what came of it
  validate-config FILE       check a configuration
  validate-connection FILE   check connection info
  tunnel                     keep a session through which the server reaches this machine's cluster
  version                    print the version

environment: CATTLE_AGENT_CONFIG (default /etc/rancher/agent/config.yaml), CATTLE_AGENT_STRICT_VERIFY, CATTLE_LOGLEVEL,
CATTLE_TUNNEL_CONFIG (default /etc/rancher/agent/tunnel.yaml), HTTPS_PROXY, HTTP_PROXY, NO_PROXY
";

/// What the command is asked to do.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Command {
    Run,
    Apply(PathBuf),
    ValidateConfig(PathBuf),
    ValidateConnection(PathBuf),
    Tunnel,
    Version,
    Help,
}

impl Command {
    /// None: wrong usage.
    fn parse(args: &[String]) -> Option<Self> {
        let words: Vec<_> = args.iter().map(String::as_str).collect();
        Some(match words[..] {
            ["run" | "sentinel"] => Command::Run,
            ["apply", file] => Command::Apply(file.into()),
            ["validate-config", file] => Command::ValidateConfig(file.into()),
            ["validate-connection", file] => Command::ValidateConnection(file.into()),
            ["tunnel"] => Command::Tunnel,
            ["version" | "--version" | "-v"] => Command::Version,
            ["help" | "--help" | "-h"] => Command::Help,
            _ => return None,
        })
    }
}

/// How what takes time went.
enum Done {
    Well,
    /// Another binary is to go on from here.
    Replaced(PathBuf),
}

/// What went wrong, in one line for standard error.
type Failure = String;

/// Makes what gets images, from the configuration.
pub type ImagesOf = Box<dyn Fn(&Config) -> Arc<dyn Images>>;

/// What a process is given.
pub struct Process {
    /// Its arguments, without its own name.
    pub args: Vec<String>,
    /// Its environment.
    pub environment: Vec<(String, String)>,
    /// Where images come from.
    pub images: ImagesOf,
}

impl std::fmt::Debug for Process {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Process").field("args", &self.args).finish_non_exhaustive()
    }
}

impl Process {
    /// Does what the arguments say: 0 if it went well, 1 if not, 2 for wrong usage.
    pub fn main(self) -> ExitCode {
        let Some(command) = Command::parse(&self.args) else {
            eprint!("{USAGE}");
            return ExitCode::from(2);
        };
        match self.execute(command) {
            Ok(()) => ExitCode::SUCCESS,
            Err(failure) => {
                eprintln!("herdsman-agent: {failure}");
                ExitCode::FAILURE
            }
        }
    }

    fn execute(self, command: Command) -> Result<(), Failure> {
        match command {
            Command::Help => print!("{USAGE}"),
            Command::Version => println!("herdsman-agent {}", env!("CARGO_PKG_VERSION")),
            Command::Tunnel => return self.block_on(self.tunnel()),
            Command::ValidateConfig(path) => validate_config(&path)?,
            Command::ValidateConnection(path) => validate_connection(&path)?,
            Command::Apply(path) => return self.block_on(self.apply(&path)),
            Command::Run => return self.block_on(self.run()),
        }
        Ok(())
    }

    fn variable(&self, name: &str) -> &str {
        let find = self.environment.iter().rfind(|(key, _)| key == name);
        find.map_or("", |(_, value)| value.as_str())
    }

    fn block_on(&self, work: impl Future<Output = Result<Done, Failure>>) -> Result<(), Failure> {
        let word = self.variable("CATTLE_LOGLEVEL");
        let level = log::level(word).ok_or_else(|| format!("CATTLE_LOGLEVEL: {word:?} is not a level"))?;
        let lines = log::Lines::new(level, Arc::new(SystemClock));
        tracing::subscriber::set_global_default(lines).map_err(|error| error.to_string())?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| format!("cannot start: {error}"))?;
        let result = runtime.block_on(async {
            tokio::select! {
                biased;
                end = ended() => end,
                result = work => result,
            }
        });
        // A name that is being looked up does not keep us.
        runtime.shutdown_background();
        match result? {
            Done::Well => Ok(()),
            Done::Replaced(binary) => {
                let error = std::process::Command::new(&binary).args(&self.args).exec();
                Err(format!("cannot go over to {}: {error}", binary.display()))
            }
        }
    }

    fn config(&self) -> Result<Config, Failure> {
        let path = match self.variable("CATTLE_AGENT_CONFIG") {
            "" => config::DEFAULT_PATH,
            path => path,
        };
        Config::load(Path::new(path)).map_err(|error| crate::chain(&error))
    }

    fn machine(&self, config: &Config) -> Machine {
        Machine::this(self.environment.clone(), (self.images)(config))
    }

    async fn run(&self) -> Result<Done, Failure> {
        if !rustix::process::getuid().is_root() {
            return Err("it must be run as root".into());
        }
        let config = self.config()?;
        let strict = self.variable("CATTLE_AGENT_STRICT_VERIFY").eq_ignore_ascii_case("true");
        let binary = std::env::current_exe().map_err(|error| format!("cannot find this binary: {error}"))?;
        let end = daemon::run(&config, strict, self.machine(&config), Some(binary)).await;
        match end.map_err(|error| crate::chain(&error))? {
            End::Replaced(binary) => Ok(Done::Replaced(binary)),
        }
    }

    async fn tunnel(&self) -> Result<Done, Failure> {
        let load = || tunnel::Config::load(|name| self.variable(name).to_owned());
        let entropy = || Box::new(SystemEntropy) as Box<dyn Entropy>;
        let run = tunnel::run(load, &self.environment, Arc::new(SystemClock), entropy);
        let binary = std::env::current_exe().map_err(|error| format!("cannot find this binary: {error}"))?;
        tokio::select! {
            biased;
            () = update::superseded(&binary) => Ok(Done::Replaced(binary)),
            result = run => match result.map_err(|error| crate::chain(&error))? {},
        }
    }

    async fn apply(&self, path: &Path) -> Result<Done, Failure> {
        let bytes =
            std::fs::read(path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
        let document = Document::parse(bytes)
            .map_err(|error| format!("{}: {}", path.display(), crate::chain(&error)))?;
        for finding in plan::validate(document.plan()) {
            let word = if finding.severity == Severity::Error { "error" } else { "warning" };
            eprintln!("{word}: {finding}");
        }
        let config = self.config()?;
        let applier = Applier::new(self.machine(&config), &config);
        match applier.apply(&document, 1, &Outputs::new()).await {
            Outcome::Succeeded(outputs) => {
                print_outputs(&outputs);
                println!("applied {}", document.checksum());
                Ok(Done::Well)
            }
            Outcome::Failed(outputs) => {
                print_outputs(&outputs);
                Err(format!("failed {}", document.checksum()))
            }
            Outcome::Postponed(Some(until)) => {
                Err(format!("not applied, something is in the way; try again at {until}"))
            }
            Outcome::Postponed(None) => Err("not applied, see the log".into()),
        }
    }
}

fn print_outputs(outputs: &Outputs) {
    for (name, output) in outputs {
        println!("{name}:\n{}", String::from_utf8_lossy(output).trim_end());
    }
}

fn validate_config(path: &Path) -> Result<(), Failure> {
    for warning in Config::validate(path).map_err(|error| crate::chain(&error))? {
        eprintln!("warning: {warning}");
    }
    println!("{} is valid", path.display());
    Ok(())
}

fn validate_connection(path: &Path) -> Result<(), Failure> {
    let connection = Connection::load(path).map_err(|error| crate::chain(&error))?;
    Kubeconfig::parse(&connection.kubeconfig)
        .map_err(|error| format!("{}: kubeConfig: {}", path.display(), crate::chain(&error)))?;
    println!("{} is valid", path.display());
    Ok(())
}

/// When the process is asked to end.
async fn ended() -> Result<Done, Failure> {
    let listen = |kind| signal(kind).map_err(|error| format!("cannot listen for signals: {error}"));
    let (mut terminate, mut interrupt) = (listen(SignalKind::terminate())?, listen(SignalKind::interrupt())?);
    tokio::select! {
        biased;
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    tracing::info!("asked to end");
    Ok(Done::Well)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments() {
        let parse =
            |line: &str| Command::parse(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>());
        assert_eq!(parse("run"), Some(Command::Run));
        assert_eq!(parse("sentinel"), Some(Command::Run));
        assert_eq!(parse("apply f"), Some(Command::Apply("f".into())));
        assert_eq!(parse("validate-connection f"), Some(Command::ValidateConnection("f".into())));
        assert_eq!(parse("--version"), Some(Command::Version));
        for wrong in ["", "apply", "run now", "validate-config a b", "Run"] {
            assert_eq!(parse(wrong), None, "{wrong:?}");
        }
    }
}
