//! The real machine: processes of Linux.

use std::process::Stdio;

use bytes::BytesMut;
use rustix::process::{Pid, Signal, kill_process_group, test_kill_process};
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::process::{Child, Command};

use crate::capture::Capture;
use crate::machine::{Ended, Executor, Later, Program};

/// A line in the log is at most this long; what is kept is not touched by that.
const LOG_LINE: usize = 4 << 10;
/// What is read at a time.
const CHUNK: usize = 16 << 10;

/// Runs programs as processes, each in a group of its own.
#[derive(Clone, Copy, Debug, Default)]
pub struct Processes;

impl Executor for Processes {
    fn run<'a>(&'a self, program: &'a Program) -> Later<'a, Ended> {
        Box::pin(run(program))
    }

    fn is_alive(&self, process: u32) -> bool {
        let pid = i32::try_from(process).ok().and_then(Pid::from_raw);
        // A process that we may not signal is alive as well.
        pid.is_some_and(|pid| test_kill_process(pid) != Err(rustix::io::Errno::SRCH))
    }
}

async fn run(program: &Program) -> Ended {
    let spawned = Command::new(&program.command)
        .args(&program.args)
        .env_clear()
        .envs(program.env.iter().map(|(name, value)| (name, value)))
        .current_dir(&program.directory)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn();
    let mut child = match spawned {
        Ok(child) => child,
        Err(error) => {
            let said = format!("cannot run {}: {error}\n", program.command).into_bytes();
            return Ended { stderr: said.clone(), combined: said, exit_code: -1, ..Ended::default() };
        }
    };
    let mut group = Group(child.id());
    let mut streams = Streams::new(&program.label);
    let (mut stdout, mut stderr) = (child.stdout.take(), child.stderr.take());
    // A process that the program left behind may hold the pipes open: its end counts, not theirs.
    let exit_code = tokio::select! {
        biased;
        () = streams.drain(stdout.as_mut(), stderr.as_mut()) => wait(&mut child).await,
        code = wait(&mut child) => code,
    };
    group.0 = None;
    streams.rest(stdout.as_mut(), stderr.as_mut()).await;
    streams.finish(exit_code)
}

async fn wait(child: &mut Child) -> i64 {
    child.wait().await.ok().and_then(|status| status.code()).map_or(-1, i64::from)
}

/// Kills the program and what it started, unless it has ended.
struct Group(Option<u32>);

impl Drop for Group {
    fn drop(&mut self) {
        let group = self.0.and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        if let Some(group) = group
            && let Err(error) = kill_process_group(group, Signal::KILL)
        {
            tracing::warn!(%error, "cannot kill a program");
        }
    }
}

struct Streams<'a> {
    stdout: Capture,
    stderr: Capture,
    combined: Capture,
    out_log: Lines<'a>,
    err_log: Lines<'a>,
}

impl<'a> Streams<'a> {
    fn new(label: &'a str) -> Self {
        Streams {
            stdout: Capture::default(),
            stderr: Capture::default(),
            combined: Capture::default(),
            out_log: Lines { label, stream: "stdout", line: Vec::new() },
            err_log: Lines { label, stream: "stderr", line: Vec::new() },
        }
    }

    /// Reads both until both are at their end. What was read is kept if this is dropped.
    async fn drain<R: AsyncRead + Unpin, S: AsyncRead + Unpin>(
        &mut self,
        mut stdout: Option<&mut R>,
        mut stderr: Option<&mut S>,
    ) {
        let (mut out, mut err) = (BytesMut::with_capacity(CHUNK), BytesMut::with_capacity(CHUNK));
        while stdout.is_some() || stderr.is_some() {
            tokio::select! {
                biased;
                open = more(&mut stdout, &mut out), if stdout.is_some() => {
                    if !open { stdout = None; }
                    self.out(&out);
                    out.clear();
                }
                open = more(&mut stderr, &mut err), if stderr.is_some() => {
                    if !open { stderr = None; }
                    self.err(&err);
                    err.clear();
                }
            }
        }
    }

    /// What is in the pipes of a program that has ended.
    async fn rest<R: AsyncRead + Unpin, S: AsyncRead + Unpin>(
        &mut self,
        stdout: Option<&mut R>,
        stderr: Option<&mut S>,
    ) {
        tokio::select! {
            biased;
            () = self.drain(stdout, stderr) => {}
            // One turn of the loop for the runtime to see what is there, no waiting for what is not.
            () = tokio::time::sleep(std::time::Duration::from_millis(20)) => {}
        }
    }

    fn out(&mut self, bytes: &[u8]) {
        self.stdout.push(bytes);
        self.combined.push(bytes);
        self.out_log.push(bytes);
    }

    fn err(&mut self, bytes: &[u8]) {
        self.stderr.push(bytes);
        self.combined.push(bytes);
        self.err_log.push(bytes);
    }

    fn finish(mut self, exit_code: i64) -> Ended {
        self.out_log.end();
        self.err_log.end();
        Ended {
            stdout: self.stdout.finish(),
            stderr: self.stderr.finish(),
            combined: self.combined.finish(),
            exit_code,
        }
    }
}

/// Says whether there may be more after this. Nothing is lost if it is dropped.
async fn more<R: AsyncRead + Unpin>(stream: &mut Option<&mut R>, into: &mut BytesMut) -> bool {
    into.reserve(CHUNK);
    match stream {
        Some(stream) => matches!(stream.read_buf(into).await, Ok(read) if read > 0),
        None => false,
    }
}

/// Lines for the log.
struct Lines<'a> {
    label: &'a str,
    stream: &'static str,
    line: Vec<u8>,
}

impl Lines<'_> {
    fn push(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            match byte {
                b'\n' => self.end(),
                byte if self.line.len() < LOG_LINE => self.line.push(byte),
                _ => {}
            }
        }
    }

    fn end(&mut self) {
        if !self.line.is_empty() {
            let line = String::from_utf8_lossy(&self.line);
            tracing::info!("[{}:{}]: {}", self.label, self.stream, line.trim_end_matches('\r'));
            self.line.clear();
        }
    }
}
