//! Runs the scripts with one kubectl on one server.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Mutex;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result};
use clock::{Deadline, SystemClock};
use regex::Regex;
use tempfile::TempDir;

use super::normal::normal;
use super::script::{Line, Script};
use super::versions::Kubectl;

/// Scripts that run at the same time.
const SIDE_BY_SIDE: usize = 4;
/// How long what has to happen eventually may take.
const PATIENCE: Duration = Duration::from_secs(20);
const POLL: Duration = Duration::from_millis(100);
/// How long a command that is to be ended gets to begin.
const BEGIN: Duration = Duration::from_millis(1500);

/// What a command did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Did {
    /// Its exit code; none if it was ended.
    pub code: Option<i32>,
    /// Its output without what differs from run to run.
    pub output: String,
    /// What is wrong with it on any server.
    pub wrong: Option<String>,
}

/// What all commands did, by script name and command.
pub type Transcript = BTreeMap<(String, usize), Did>;

/// Runs the scripts with one kubectl on one server; further programs are on the path by their own names.
pub fn run(
    scripts: &[Script],
    kubectl: &Kubectl,
    further: &[PathBuf],
    kubeconfig: &Path,
) -> Result<Transcript> {
    let directory = TempDir::with_prefix("kubectl-")?;
    let bin = directory.path().join("bin");
    fs::create_dir(&bin)?;
    symlink(&kubectl.program, bin.join("kubectl"))?;
    for program in further {
        symlink(program, bin.join(program.file_name().context("a program without a name")?))?;
    }
    let place = Place { directory: directory.path().to_owned(), bin, minor: kubectl.minor, kubeconfig };
    let waiting = Mutex::new(scripts.iter());
    let transcript = Mutex::new(Transcript::new());
    let next = || waiting.lock().ok().and_then(|mut waiting| waiting.next());
    thread::scope(|scope| {
        let workers: Vec<_> = (0..SIDE_BY_SIDE)
            .map(|_| {
                scope.spawn(|| -> Result<()> {
                    while let Some(script) = next() {
                        let did = place.script(script).with_context(|| script.name.clone())?;
                        transcript.lock().ok().context("a worker failed")?.extend(did);
                    }
                    Ok(())
                })
            })
            .collect();
        workers.into_iter().try_for_each(|worker| worker.join().ok().context("a worker failed")?)
    })?;
    transcript.into_inner().ok().context("a worker failed")
}

struct Place<'a> {
    directory: PathBuf,
    bin: PathBuf,
    minor: u32,
    kubeconfig: &'a Path,
}

impl Place<'_> {
    fn script(&self, script: &Script) -> Result<Transcript> {
        let namespace = format!("{}-{}", script.name, self.minor);
        let directory = self.directory.join(&script.name);
        let filled =
            |text: &str| text.replace("{ns}", &namespace).replace("{v}", &format!("v{}", self.minor));
        fs::create_dir(&directory)?;
        for (name, content) in &script.files {
            let path = directory.join(name);
            fs::create_dir_all(path.parent().context("a file without a directory")?)?;
            fs::write(path, filled(content))?;
        }
        let shell = Shell { place: self, directory, namespace: namespace.clone() };
        let made = shell.output(&format!("kubectl create namespace {namespace}"), "")?;
        anyhow::ensure!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        // Pods need it.
        let account =
            Line { run: "kubectl get serviceaccount default".into(), eventually: true, ..Line::default() };
        shell.line(&account)?;
        let lines = script.commands.iter().enumerate().filter(|(_, line)| line.since <= self.minor);
        lines
            .map(|(index, line)| {
                let line = Line {
                    run: filled(&line.run),
                    stdin: filled(&line.stdin),
                    meanwhile: line.meanwhile.iter().map(|command| filled(command)).collect(),
                    ..line.clone()
                };
                Ok(((script.name.clone(), index), shell.line(&line).with_context(|| line.run.clone())?))
            })
            .collect()
    }
}

struct Shell<'a> {
    place: &'a Place<'a>,
    directory: PathBuf,
    namespace: String,
}

impl Shell<'_> {
    fn line(&self, line: &Line) -> Result<Did> {
        let deadline = Deadline::after(&SystemClock, PATIENCE);
        loop {
            let did = self.attempt(line)?;
            if did.wrong.is_none() || !line.eventually || deadline.passed(&SystemClock) {
                return Ok(did);
            }
            thread::sleep(POLL);
        }
    }

    fn attempt(&self, line: &Line) -> Result<Did> {
        let output = match line.seconds {
            None => self.output(&line.run, &line.stdin)?,
            Some(seconds) => self.bounded(&line.run, Duration::from_secs(seconds), &line.meanwhile)?,
        };
        let code = output.status.code().filter(|_| line.seconds.is_none());
        let said = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        // The parts apart: in which order they were written is chance.
        let text =
            if said[1].is_empty() { said[0].clone() } else { format!("{}\nstderr:\n{}", said[0], said[1]) };
        let wrong = wrong(line, code, &text)?;
        Ok(Did { code, output: masked(line, &text)?, wrong })
    }

    fn output(&self, command: &str, stdin: &str) -> Result<Output> {
        let mut child = self.start(command)?;
        if let Some(mut input) = child.stdin.take() {
            // A command that does not read its input closes it.
            let _ = input.write_all(stdin.as_bytes());
        }
        Ok(child.wait_with_output()?)
    }

    /// What a command that does not end by itself says while the others run.
    fn bounded(&self, command: &str, time: Duration, meanwhile: &[String]) -> Result<Output> {
        let bounded = format!("exec timeout --signal=INT {} {command}", (BEGIN + time).as_secs_f32());
        let child = self.start(&bounded)?;
        thread::sleep(BEGIN);
        for command in meanwhile {
            self.output(command, "")?;
        }
        Ok(child.wait_with_output()?)
    }

    fn start(&self, command: &str) -> Result<Child> {
        let path = std::env::var("PATH").unwrap_or_default();
        let mut shell = Command::new("sh");
        shell.args(["-c", command]).current_dir(&self.directory);
        shell.env("PATH", format!("{}:{path}", self.place.bin.display()));
        shell.env("KUBECONFIG", self.kubeconfig()?).env("KUBERC", "off").env("TZ", "UTC").env("TERM", "dumb");
        shell.env("KUBECACHEDIR", self.place.directory.join("cache"));
        // Where other programs keep what they keep for a user.
        shell.env("HOME", &self.place.directory);
        shell.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Ok(shell.spawn()?)
    }

    /// The administrator's, with the script's namespace.
    fn kubeconfig(&self) -> Result<PathBuf> {
        let path = self.directory.join(".kubeconfig");
        if !path.exists() {
            let text = fs::read_to_string(self.place.kubeconfig)?;
            let mut config: serde_json::Value = serde_saphyr::from_str(&text)?;
            config["contexts"][0]["context"]["namespace"] = self.namespace.clone().into();
            fs::write(&path, config.to_string())?;
        }
        Ok(path)
    }
}

fn wrong(line: &Line, code: Option<i32>, text: &str) -> Result<Option<String>> {
    if code.is_some_and(|code| code != line.code) {
        return Ok(Some(format!("exit code {code:?}, not {}: {text}", line.code)));
    }
    let Some(pattern) = &line.has else { return Ok(None) };
    let found = Regex::new(&format!("(?m){pattern}"))?.is_match(text);
    Ok((!found).then(|| format!("no {pattern:?} in {text}")))
}

fn masked(line: &Line, text: &str) -> Result<String> {
    let mut text = text.to_owned();
    if let Some(pattern) = &line.keep {
        let keep = Regex::new(pattern)?;
        text = text.lines().filter(|line| keep.is_match(line)).collect::<Vec<_>>().join("\n");
    }
    if let Some(pattern) = &line.mask {
        text = Regex::new(&format!("(?m){pattern}"))?.replace_all(&text, "*").into_owned();
    }
    let text = normal(&text);
    if !line.sort {
        return Ok(text);
    }
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    Ok(lines.join("\n"))
}
