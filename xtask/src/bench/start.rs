//! How long a newcomer waits: from `herdsman quickstart --exit` to five ready nodes, and from the second start of `herdsman up` with all of
//! that in its directory until it serves.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, ensure};
use clock::{Clock, SystemClock};

use super::Effort;
use super::figure::{Bar, Figure};
use crate::run::measured_programs;

/// Seconds that each may take.
const QUICKSTART: f64 = 15.0;
const SECOND_START: f64 = 1.0;

pub(crate) fn run(effort: Effort) -> anyhow::Result<Vec<Figure>> {
    let herdsman = measured_programs()?.join("herdsman");
    let rounds = if effort == Effort::Quick { 1 } else { 3 };
    let (mut first, mut second) = (Duration::ZERO, Duration::ZERO);
    for _ in 0..rounds {
        let directory = tempfile::tempdir()?;
        first = first.max(quickstart(&herdsman, directory.path())?);
        second = second.max(start(&herdsman, directory.path())?);
    }
    let figure = |name: &str, took: Duration, most| Figure {
        name: name.into(),
        value: took.as_secs_f64(),
        unit: "s",
        bar: Bar::AtMost(most),
    };
    Ok(vec![figure("quickstart", first, QUICKSTART), figure("second_start", second, SECOND_START)])
}

fn quickstart(herdsman: &Path, directory: &Path) -> anyhow::Result<Duration> {
    let began = SystemClock.monotonic();
    let mut command = Command::new(herdsman);
    command.args(["quickstart", "--exit", "--data-dir"]).arg(directory);
    let output = command.output().context("cannot start herdsman")?;
    let took = SystemClock.monotonic().since(began);
    let said = String::from_utf8_lossy(&output.stdout);
    let ready = said.lines().filter(|line| line.split_whitespace().nth(1) == Some("Ready")).count();
    ensure!(
        output.status.success() && ready == 5,
        "quickstart failed: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(took)
}

fn start(herdsman: &Path, directory: &Path) -> anyhow::Result<Duration> {
    let began = SystemClock.monotonic();
    let mut command = Command::new(herdsman);
    command.args(["up", "--listen", "127.0.0.1:0", "--data-dir"]).arg(directory).env("HERDSMAN_LOG", "error");
    let mut server = Server(command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?);
    let mut line = String::new();
    BufReader::new(server.0.stdout.take().context("no output")?).read_line(&mut line)?;
    ensure!(line.starts_with("ready url="), "up does not serve: {line:?}");
    Ok(SystemClock.monotonic().since(began))
}

/// Ends with the value.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
