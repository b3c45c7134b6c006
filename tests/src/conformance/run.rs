//! Runs the tables.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use clock::{Clock, Deadline, Entropy, SystemClock, SystemEntropy};
use futures_util::StreamExt;
use futures_util::stream;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::audited::audited;
use super::call;
use super::case::{Call, Case, Expect, Step, Theme};
use super::matching::{at, differences, text_difference};
use super::stream::read;
use super::variables::Variables;
use super::webhook::Webhook;
use crate::client::{Answer, Request, Server, Session, Streaming};
use crate::kubeconfig::Kubeconfig;
use crate::target::Kind;

/// Cases that run at the same time.
const SIDE_BY_SIDE: usize = 24;
/// How long what has to happen eventually may take.
/// kube-controller-manager takes half a minute to notice a new kind.
const PATIENCE: Duration = Duration::from_secs(90);
/// A case that failed on the real server has another number in its second try. What a busy peer answers too late is not
/// under test; ours has one try.
const AGAIN: usize = 10_000;
/// The size of a text that is worth compressing.
const BIG: usize = 200_000;
const POLL: Duration = Duration::from_millis(50);

/// What came of a run.
#[derive(Debug)]
pub struct Outcome {
    /// How many cases ran.
    pub cases: usize,
    /// A line for each that failed.
    pub failures: Vec<String>,
    /// How long it took.
    pub took: Duration,
    /// How long each case took, longest first.
    pub times: Vec<(Duration, String)>,
}

/// What all cases of a run share.
struct Shared {
    kind: Kind,
    server: Server,
    webhook: Webhook,
    audit_log: Option<PathBuf>,
    /// Part of every name, so that a server can be used for more than one run.
    run: String,
}

/// Runs every case whose name contains `only` against a server. Without its audit log, nothing is asked of that.
pub async fn run_all(
    kind: Kind,
    kubeconfig: &Kubeconfig,
    audit_log: Option<PathBuf>,
    themes: &[Theme],
    only: &str,
) -> Result<Outcome> {
    let started = SystemClock.monotonic();
    let mut random = [0; 2];
    SystemEntropy.fill(&mut random);
    let run = format!("{:04x}", u16::from_le_bytes(random));
    let (server, webhook) = (Server::new(kubeconfig)?, Webhook::start().await?);
    let shared = Arc::new(Shared { kind, server, webhook, audit_log, run });
    let cases = themes.iter().flat_map(|theme| theme.cases.iter().map(move |case| (theme, case)));
    let chosen: Vec<_> = cases
        .enumerate()
        .map(|(index, (theme, case))| (index, format!("{}: {}", theme.file, case.case), case))
        .filter(|(_, name, _)| name.contains(only))
        .collect();
    let count = chosen.len();
    let results = stream::iter(&chosen).map(|(index, name, case)| {
        let shared = Arc::clone(&shared);
        async move {
            let started = SystemClock.monotonic();
            let mut result = run_case(&shared, *index, case).await;
            if kind == Kind::Kubernetes
                && let Err(error) = &result
            {
                println!("once more: {name}: {error:#}");
                result = run_case(&shared, *index + AGAIN, case).await;
            }
            let failure = result.err().map(|error| format!("{name}: {error:#}"));
            (SystemClock.monotonic().since(started), name.clone(), failure)
        }
    });
    let results: Vec<_> = results.buffer_unordered(SIDE_BY_SIDE).collect().await;
    let mut outcome = Outcome {
        cases: count,
        failures: results.iter().filter_map(|(_, _, failure)| failure.clone()).collect(),
        took: SystemClock.monotonic().since(started),
        times: results.into_iter().map(|(time, name, _)| (time, name)).collect(),
    };
    outcome.failures.sort();
    outcome.times.sort_by_key(|(time, _)| std::cmp::Reverse(*time));
    Ok(outcome)
}

async fn run_case(shared: &Shared, index: usize, case: &Case) -> Result<()> {
    let mut running = Running::new(shared, index)?;
    if case.steps.iter().any(|step| format!("{step:?}").contains("{ns}")) {
        running.create_namespace().await.context("namespace")?;
    }
    for (number, step) in case.steps.iter().enumerate() {
        let place = || format!("step {} ({})", number + 1, step.call.request);
        for round in 0..step.call.repeat.unwrap_or(1) {
            running.variables.set("i", round.to_string());
            running.step(shared.kind, step).await.with_context(place)?;
        }
    }
    Ok(())
}

/// A case while it runs.
struct Running {
    session: Session,
    variables: Variables,
    streams: BTreeMap<String, Streaming>,
    audit_log: Option<PathBuf>,
}

impl Running {
    fn new(shared: &Shared, index: usize) -> Result<Self> {
        let id = format!("t{index}x{}", shared.run);
        let mut variables = Variables::new()?;
        variables.set("ns", format!("ns-{id}"));
        variables.set("id", id);
        variables.set("big", "0123456789".repeat(BIG / 10));
        variables.set("webhook", shared.webhook.url());
        variables.set("webhook_port", shared.webhook.port());
        variables.set("webhook_ca", shared.webhook.authority());
        let (session, audit_log) = (Session::new(shared.server.clone()), shared.audit_log.clone());
        Ok(Running { session, variables, streams: BTreeMap::new(), audit_log })
    }

    async fn create_namespace(&self) -> Result<()> {
        let request = Request {
            method: "POST".into(),
            path: "/api/v1/namespaces".into(),
            headers: vec![("content-type".into(), "application/json".into())],
            body: json!({"apiVersion": "v1", "kind": "Namespace",
                "metadata": {"name": self.variables.text("{ns}")?}})
            .to_string()
            .into(),
            as_administrator: true,
            old: false,
        };
        let answer = self.session.send(&request).await?;
        anyhow::ensure!(answer.status == 201, "{} {}", answer.status, String::from_utf8_lossy(&answer.body));
        Ok(())
    }

    async fn step(&mut self, kind: Kind, step: &Step) -> Result<()> {
        let deadline = Deadline::after(&SystemClock, PATIENCE);
        loop {
            let lines = self.attempt(&step.call, step.expectation(kind)).await?;
            if lines.is_empty() {
                return Ok(());
            }
            if !step.call.eventually || deadline.passed(&SystemClock) {
                bail!("{}", lines.join("; "));
            }
            sleep(POLL).await;
        }
    }

    /// How what comes back differs from what is expected.
    async fn attempt(&mut self, call: &Call, expect: &Expect) -> Result<Vec<String>> {
        if let Some(name) = call.request.strip_prefix("READ ") {
            let stream = self.streams.get_mut(name).context("no such stream")?;
            let events = expect.events.as_deref().unwrap_or_default();
            let events =
                events.iter().map(|event| self.variables.value(event)).collect::<Result<Vec<_>>>()?;
            return read(stream, &events, expect.ends).await;
        }
        let request = call::request(call, &self.variables)?;
        if call.open.is_none() && expect.events.is_none() {
            let answer = self.session.send(&request).await?;
            let mut lines = self.judge(&answer, expect)?;
            if lines.is_empty() {
                lines.extend(self.audited(&answer, expect).await?);
            }
            return Ok(lines);
        }
        let mut stream = self.session.open(&request).await?;
        let mut lines = code_difference(expect, stream.status, String::new);
        lines.extend(header_differences(expect, &stream.headers, &self.variables)?);
        if let Some(events) = expect.events.as_deref().filter(|_| lines.is_empty()) {
            let events =
                events.iter().map(|event| self.variables.value(event)).collect::<Result<Vec<_>>>()?;
            lines.extend(read(&mut stream, &events, expect.ends).await?);
        }
        if let Some(name) = &call.open {
            self.streams.insert(name.clone(), stream);
        }
        Ok(lines)
    }

    fn judge(&mut self, answer: &Answer, expect: &Expect) -> Result<Vec<String>> {
        let plain = call::uncompressed(&answer.headers, &answer.body)?;
        let text = String::from_utf8_lossy(&plain);
        let body = call::decoded(&answer.headers, &plain)?;
        let mut lines = code_difference(expect, answer.status, || text.chars().take(600).collect());
        lines.extend(header_differences(expect, &answer.headers, &self.variables)?);
        lines.extend(self.body_differences(expect, body.as_ref(), &text)?);
        if lines.is_empty() {
            self.capture(expect, answer, body.as_ref())?;
        }
        Ok(lines)
    }

    async fn audited(&self, answer: &Answer, expect: &Expect) -> Result<Vec<String>> {
        let (Some(log), Some(pattern)) = (&self.audit_log, &expect.audit) else { return Ok(Vec::new()) };
        let id = answer.headers.get("audit-id").and_then(|id| id.to_str().ok()).context("no audit id")?;
        audited(log, id, &self.variables.value(pattern)?).await
    }

    fn body_differences(&self, expect: &Expect, body: Option<&Value>, text: &str) -> Result<Vec<String>> {
        let mut lines = Vec::new();
        if let Some(pattern) = &expect.body {
            lines.extend(differences(&self.variables.value(pattern)?, body));
        }
        for (path, pattern) in &expect.at {
            // Paths of OpenAPI have braces of their own.
            let path = &self.variables.known(path);
            let found = differences(&self.variables.value(pattern)?, body.and_then(|body| at(body, path)));
            lines.extend(found.into_iter().map(|line| format!("{path} {line}")));
        }
        for (field, pattern) in [("reason", &expect.reason), ("message", &expect.message)] {
            let Some(pattern) = pattern else { continue };
            let actual = body.and_then(|body| body[field].as_str()).unwrap_or_default();
            lines.extend(text_difference(field, &self.variables.text(pattern)?, actual));
        }
        if let Some(pattern) = &expect.text {
            lines.extend(text_difference("text", &self.variables.text(pattern)?, text));
        }
        Ok(lines)
    }

    fn capture(&mut self, expect: &Expect, answer: &Answer, body: Option<&Value>) -> Result<()> {
        let text = |path: &str| {
            body.and_then(|body| at(body, path)).map(|value| match value {
                Value::String(text) => text.clone(),
                other => other.to_string(),
            })
        };
        for (name, path) in &expect.capture {
            let value = match path.split_once(':') {
                Some(("header", header)) => {
                    answer.headers.get(header).and_then(|value| value.to_str().ok()).map(str::to_owned)
                }
                Some(("base64", path)) => {
                    let bytes = text(path).and_then(|text| BASE64_STANDARD.decode(text).ok());
                    bytes.and_then(|bytes| String::from_utf8(bytes).ok())
                }
                _ => text(path),
            };
            self.variables.set(name, value.with_context(|| format!("nothing at {path}"))?);
        }
        Ok(())
    }
}

/// Without an expectation it has to be a success.
fn code_difference(expect: &Expect, status: u16, body: impl Fn() -> String) -> Vec<String> {
    let fits = expect.code.map_or((200..300).contains(&status), |code| code == status);
    if fits {
        return Vec::new();
    }
    let wanted = expect.code.map_or_else(|| "a success".to_owned(), |code| code.to_string());
    vec![format!("code is {status}, not {wanted}: {}", body())]
}

fn header_differences(
    expect: &Expect,
    headers: &http::HeaderMap,
    variables: &Variables,
) -> Result<Vec<String>> {
    let all = |name: &str| -> Vec<String> {
        headers
            .get_all(name)
            .iter()
            .map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned())
            .collect()
    };
    let mut lines = Vec::new();
    for (name, pattern) in &expect.sends {
        lines.extend(text_difference(name, &variables.text(pattern)?, &all(name).join(", ")));
    }
    if let Some(expected) = &expect.warnings {
        let expected = expected.iter().map(|text| variables.text(text)).collect::<Result<Vec<_>>>()?;
        let texts: Vec<String> = all("warning").iter().map(|warning| warning_text(warning)).collect();
        let fits = texts.len() == expected.len()
            && expected
                .iter()
                .zip(&texts)
                .all(|(pattern, text)| text_difference("", pattern, text).is_none());
        if !fits {
            lines.push(format!("warnings are {texts:?}, not {expected:?}"));
        }
    }
    Ok(lines)
}

/// The text of `299 - "text"`.
fn warning_text(header: &str) -> String {
    let quoted = header.strip_prefix("299 - ").unwrap_or(header);
    serde_json::from_str(quoted).unwrap_or_else(|_| quoted.to_owned())
}
