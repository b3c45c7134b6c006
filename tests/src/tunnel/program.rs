//! Programs of either kind, running.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};

use anyhow::{Context, Result, bail};
use peers::Peer;

use super::tls::Files;

/// Whose program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Maker {
    /// Herdsman's.
    Ours,
    /// Rancher's.
    Go,
    /// No tunnel.
    Raw,
}

impl Maker {
    /// In one word.
    pub fn name(self) -> &'static str {
        match self {
            Maker::Ours => "herdsman",
            Maker::Go => "go",
            Maker::Raw => "raw",
        }
    }
}

/// Where the programs are.
#[derive(Clone, Debug)]
pub struct Programs {
    /// Our own.
    pub ours: PathBuf,
    /// Go's.
    pub go: PathBuf,
}

impl Programs {
    /// Ours from where it was built, Go's from the peers.
    pub fn new(ours: impl Into<PathBuf>) -> Result<Self> {
        let go = Peer::Remotedialer.provide()?.path.join("tunnel-peer");
        Ok(Programs { ours: ours.into(), go })
    }

    fn start(&self, maker: Maker, mode: &str, arguments: &[String]) -> Result<Running> {
        let program = if maker == Maker::Go { &self.go } else { &self.ours };
        let mode = if maker == Maker::Raw { format!("raw-{mode}") } else { mode.to_owned() };
        Running::start(program, &mode, arguments)
    }

    /// A server, with more arguments.
    pub fn server(&self, maker: Maker, tls: &Files, more: &[&str]) -> Result<Server> {
        let path = |path: &Path| path.display().to_string();
        let mut arguments =
            vec!["-tls-cert".into(), path(&tls.certificate), "-tls-key".into(), path(&tls.key)];
        arguments.extend(more.iter().map(|word| (*word).to_owned()));
        let running = self.start(maker, "server", &arguments)?;
        let word = |name: &str| {
            let mut words = running.ready.split(' ');
            words.find_map(|word| word.strip_prefix(name)).map(str::to_owned).context("a whole ready line")
        };
        Ok(Server { connect: word("connect=")?, forward: word("forward=")?, running })
    }

    /// A client of a server, which is connected.
    pub fn client(&self, maker: Maker, server: &Server, key: &str) -> Result<Running> {
        let arguments = ["-url", &server.url(), "-key", key].map(str::to_owned);
        self.start(maker, "client", &arguments)
    }
}

/// A server that runs.
#[derive(Debug)]
pub struct Server {
    /// Where sessions begin.
    pub connect: String,
    /// Where connections are forwarded.
    pub forward: String,
    /// The program.
    pub running: Running,
}

impl Server {
    /// Where sessions begin.
    pub fn url(&self) -> String {
        format!("wss://{}/connect", self.connect)
    }
}

/// A program that runs until this is dropped.
#[derive(Debug)]
pub struct Running {
    child: Child,
    ready: String,
    /// It ends when this does, also if we are killed.
    _stdin: Option<ChildStdin>,
}

impl Running {
    fn start(program: &Path, mode: &str, arguments: &[String]) -> Result<Self> {
        let mut command = Command::new(program);
        command.arg(mode).args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().with_context(|| format!("cannot start {}", program.display()))?;
        let stdin = child.stdin.take();
        let mut lines = BufReader::new(child.stdout.take().context("its output")?).lines();
        let ready = lines.find_map(|line| line.ok().filter(|line| line.starts_with("ready ")));
        // Whatever else it says must not fill the pipe.
        std::thread::spawn(move || lines.for_each(drop));
        let mut running = Running { child, ready: String::new(), _stdin: stdin };
        match ready {
            Some(ready) => running.ready = ready,
            None => bail!("{} {mode} did not become ready: {:?}", program.display(), running.child.wait()?),
        }
        Ok(running)
    }

    /// Its process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Ends it without a word, as when a machine loses power.
    pub fn kill(mut self) {
        self.end();
    }

    fn end(&mut self) {
        // Both fail only for a process that has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.end();
    }
}
