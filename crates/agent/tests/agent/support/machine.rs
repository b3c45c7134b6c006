use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};

use agent::machine::{Ended, Executor, Later, Machine, NoImages, Prober, Program, Root};
use clock::{RuntimeClock, SeededEntropy};
use plan::document::Probe;

/// What a command does when it is run.
#[derive(Clone, Debug)]
pub(crate) enum Said {
    Output(&'static str, i64),
    /// It never ends.
    Hangs,
}

/// Runs nothing, and remembers what it was asked to. A command of which nothing is said prints its name.
#[derive(Default)]
pub(crate) struct Script {
    runs: Mutex<Vec<Program>>,
    answers: Mutex<BTreeMap<String, Said>>,
    health: Mutex<BTreeMap<String, bool>>,
}

impl Script {
    pub(crate) fn on(&self, command: &str, said: Said) {
        self.answers.lock().unwrap().insert(command.to_owned(), said);
    }

    pub(crate) fn health(&self, url: &str, healthy: bool) {
        self.health.lock().unwrap().insert(url.to_owned(), healthy);
    }

    pub(crate) fn runs(&self) -> Vec<String> {
        self.runs.lock().unwrap().iter().map(|program| program.command.clone()).collect()
    }

    pub(crate) fn attempts(&self) -> Vec<String> {
        let attempt = |program: &Program| {
            let find = program.env.iter().rfind(|(name, _)| name == "CATTLE_AGENT_ATTEMPT_NUMBER");
            find.unwrap().1.clone()
        };
        self.runs.lock().unwrap().iter().map(attempt).collect()
    }
}

impl Executor for Script {
    fn run<'a>(&'a self, program: &'a Program) -> Later<'a, Ended> {
        assert!(program.directory.is_dir(), "the working directory is there");
        self.runs.lock().unwrap().push(program.clone());
        let said = self.answers.lock().unwrap().get(&program.command).cloned();
        Box::pin(async move {
            let (output, exit_code) = match said {
                Some(Said::Hangs) => std::future::pending().await,
                Some(Said::Output(output, code)) => (output.as_bytes().to_vec(), code),
                None => (format!("{}\n", program.command).into_bytes(), 0),
            };
            Ended { combined: output.clone(), stdout: output, stderr: Vec::new(), exit_code }
        })
    }

    fn is_alive(&self, process: u32) -> bool {
        process == 4242
    }
}

/// What was said about a URL, and well if nothing was.
struct Health(Arc<Script>);

impl Prober for Health {
    fn ask<'a>(&'a self, probe: &'a Probe) -> Later<'a, Result<(), String>> {
        let healthy = self.0.health.lock().unwrap().get(&probe.http_get.url).copied().unwrap_or(true);
        Box::pin(std::future::ready(healthy.then_some(()).ok_or_else(|| "ill".to_owned())))
    }
}

pub(crate) fn machine(root: &Path, script: Arc<Script>) -> Machine {
    Machine {
        root: Root::at(root),
        executor: script.clone(),
        images: Arc::new(NoImages),
        prober: Arc::new(Health(script)),
        clock: Arc::new(RuntimeClock::starting_at("2026-01-01T00:00:00Z".parse().unwrap())),
        entropy: Arc::new(Mutex::new(Box::new(SeededEntropy::new(7)))),
        environment: vec![("PATH".into(), "/usr/bin:/bin".into())],
        process: 17,
    }
}
