//! Programs that run beside a test: logged, and gone when the test is.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::OnceLock;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use clock::{Deadline, SystemClock};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use crate::command::{find_program, tail};

/// How often a process that should end is looked at.
const POLL: Duration = Duration::from_millis(10);

/// How many lines of its log explain what went wrong with a process.
const LOG_LINES: usize = 25;

/// Why a process is not running.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Its log cannot be written.
    #[error("cannot write {}: {source}", path.display())]
    Log {
        /// The log file.
        path: PathBuf,
        /// What the operating system says.
        source: io::Error,
    },
    /// It cannot be started.
    #[error("cannot start {name}: {source}")]
    Start {
        /// The process.
        name: &'static str,
        /// What the operating system says.
        source: io::Error,
    },
}

/// A running program. Dropping it ends it at once; [`stop_all`] is the polite way.
#[derive(Debug)]
pub struct Process {
    name: &'static str,
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts a program with its output in `<directory>/<name>.log`.
    pub fn start(
        name: &'static str,
        program: &Path,
        arguments: &[String],
        directory: &Path,
    ) -> Result<Self, Error> {
        let log = directory.join(format!("{name}.log"));
        let open = || -> io::Result<(File, File)> {
            let file = File::options().create(true).append(true).open(&log)?;
            Ok((file.try_clone()?, file))
        };
        let (stdout, stderr) = open().map_err(|source| Error::Log { path: log.clone(), source })?;
        let mut command = bound_to_us(program);
        command.args(arguments).current_dir(directory);
        command.stdin(Stdio::null()).stdout(stdout).stderr(stderr);
        let child = spawn(command).map_err(|source| Error::Start { name, source })?;
        Ok(Process { name, child, log })
    }

    /// Its name.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// How it ended, if it has.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// The end of its log, under a heading.
    pub fn log_tail(&self) -> String {
        let text = std::fs::read(&self.log).unwrap_or_default();
        format!("--- {} ---\n{}", self.name, tail(&String::from_utf8_lossy(&text), LOG_LINES))
    }

    /// Asks it to end.
    fn terminate(&mut self) {
        // Until it has been waited for, its id cannot belong to another process.
        if self.ended().is_none() {
            let id = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
            // It may have ended this very moment: then there is nobody to tell.
            let _ = id.map(|id| kill_process(id, Signal::TERM));
        }
    }

    fn kill(&mut self) {
        // Both fail only for a process that has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Asks all of them to end and kills those that have not within `grace`.
pub fn stop_all(processes: &mut Vec<Process>, grace: Duration) {
    processes.iter_mut().for_each(Process::terminate);
    let deadline = Deadline::after(&SystemClock, grace);
    while processes.iter_mut().any(|process| process.ended().is_none()) && !deadline.passed(&SystemClock) {
        std::thread::sleep(POLL);
    }
    processes.clear();
}

/// Kills a process that leads a group, and all processes of that group.
///
/// # Errors
/// If there is no such group.
pub fn kill_group(leader: u32) -> std::io::Result<()> {
    let id = i32::try_from(leader).ok().and_then(Pid::from_raw);
    Ok(kill_process_group(id.ok_or(std::io::ErrorKind::InvalidInput)?, Signal::KILL)?)
}

/// A command that the kernel kills when this process ends in whatever way, where `setpriv` can arrange it.
fn bound_to_us(program: &Path) -> Command {
    let Some(setpriv) = find_program("setpriv") else { return Command::new(program) };
    let mut command = Command::new(setpriv);
    command.args(["--pdeathsig", "KILL", "--"]).arg(program);
    command
}

struct Request {
    command: Command,
    answer: Sender<io::Result<Child>>,
}

/// Starts a command from a thread that lives as long as this process: "the parent is gone" means to the kernel that
/// the *thread* which started the child is gone, and threads of tests and of blocking pools end early.
fn spawn(command: Command) -> io::Result<Child> {
    static SPAWNER: OnceLock<Sender<Request>> = OnceLock::new();
    let spawner = SPAWNER.get_or_init(|| {
        let (sender, receiver) = channel();
        std::thread::spawn(move || serve(&receiver));
        sender
    });
    let (answer, answered) = channel();
    let gone = |_| io::Error::other("the thread that starts processes is gone");
    spawner.send(Request { command, answer }).map_err(|_| gone(()))?;
    answered.recv().map_err(|_| gone(()))?
}

fn serve(requests: &Receiver<Request>) {
    for mut request in requests {
        // Whoever asked may have given up.
        let _ = request.answer.send(request.command.spawn());
    }
}

#[cfg(test)]
mod tests {
    use clock::Clock;

    use super::*;
    use crate::scratch::Scratch;

    fn start(scratch: &Scratch, script: &str) -> Process {
        let arguments = ["-c", script].map(String::from);
        Process::start("script", Path::new("/bin/sh"), &arguments, scratch.path()).unwrap()
    }

    fn is_alive(id: u32) -> bool {
        Path::new(&format!("/proc/{id}")).exists()
    }

    #[test]
    fn a_process_ends_when_asked() {
        let scratch = Scratch::new("polite");
        let mut processes = vec![start(&scratch, "exec sleep 100")];
        let id = processes[0].id();
        assert!(is_alive(id) && processes[0].ended().is_none());
        let started = SystemClock.monotonic();
        stop_all(&mut processes, Duration::from_secs(20));
        assert!(SystemClock.monotonic().since(started) < Duration::from_secs(10));
        assert!(!is_alive(id));
    }

    fn wait_until(mut reached: impl FnMut() -> bool) {
        let deadline = Deadline::after(&SystemClock, Duration::from_secs(60));
        while !reached() {
            assert!(!deadline.passed(&SystemClock), "not within a minute");
            std::thread::sleep(POLL);
        }
    }

    #[test]
    fn a_process_that_does_not_listen_is_killed() {
        let scratch = Scratch::new("stubborn");
        let mut processes = vec![start(&scratch, "trap '' TERM; echo up; while :; do sleep 0.05; done")];
        let id = processes[0].id();
        wait_until(|| processes[0].log_tail().contains("up"));
        stop_all(&mut processes, Duration::from_millis(200));
        assert!(!is_alive(id));
    }

    #[test]
    fn a_process_outlives_the_thread_that_asked_for_it() {
        let scratch = Scratch::new("thread");
        let mut process =
            std::thread::scope(|scope| scope.spawn(|| start(&scratch, "exec sleep 100")).join()).unwrap();
        std::thread::sleep(Duration::from_millis(200));
        assert!(process.ended().is_none());
    }

    #[test]
    fn an_end_leaves_its_log() {
        let scratch = Scratch::new("failing");
        let mut process = start(&scratch, "echo it broke >&2; exit 4");
        wait_until(|| process.ended().is_some());
        assert_eq!(process.ended().unwrap().code(), Some(4));
        assert!(process.log_tail().contains("it broke"));
    }
}
