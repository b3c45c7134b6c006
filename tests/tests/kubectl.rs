//! Real kubectls, everyday commands, two servers: the same exit codes and the same output.

use std::io::Write;

use anyhow::{Result, ensure};
use clock::{Clock, SystemClock};
use suites::kubectl::compare::{differences, wrong};
use suites::kubectl::recorded;
use suites::kubectl::run::{Transcript, run};
use suites::kubectl::script::{self, Script};
use suites::kubectl::versions::{self, Kubectl};
use suites::target::{Kind, Target};

/// What the scripts have to have at least.
const LEAST_COMMANDS: usize = 50;
/// How many kubectls there have to be for the suite to say anything about versions.
const LEAST_VERSIONS: usize = 3;

#[test]
#[ignore = "peers: kubernetes, etcd, kubectl, kubectl-newest"]
fn kubectl_on_both() -> Result<()> {
    if peers::skip("kubectl") {
        return Ok(());
    }
    let targets = targets()?;
    let scripts = scripts()?;
    let mut complaints = Vec::new();
    for kubectl in kubectls()? {
        let mut transcripts = Vec::new();
        for target in &targets {
            let transcript = timed(&kubectl, target)?;
            complaints.extend(wrong(&kubectl, target.kind(), &transcript));
            transcripts.push(transcript);
        }
        if let [theirs, ours] = transcripts.as_slice() {
            complaints.extend(differences(&kubectl, &scripts, theirs, ours));
            if kubectl == versions::recorded()? {
                complaints.extend(record(&kubectl, &scripts, theirs)?);
            }
        }
    }
    ensure!(complaints.is_empty(), "{} complaints:\n{}", complaints.len(), complaints.join("\n"));
    Ok(())
}

/// What was recorded of a real Kubernetes is still so; with `UPDATE_RECORDED` it is recorded anew.
fn record(kubectl: &Kubectl, scripts: &[Script], theirs: &Transcript) -> Result<Vec<String>> {
    if std::env::var_os("UPDATE_RECORDED").is_some() {
        recorded::write(scripts, theirs)?;
    }
    let stale = differences(kubectl, scripts, &recorded::read(scripts)?, theirs);
    Ok(stale.into_iter().map(|difference| format!("recorded, {}: {difference}", recorded::REFRESH)).collect())
}

/// Ours answers as a real Kubernetes did when it was recorded.
#[test]
#[ignore = "default: kubectl"]
fn kubectl_as_recorded() -> Result<()> {
    if peers::skip("kubectl") {
        return Ok(());
    }
    let (kubectl, scripts) = (versions::recorded()?, scripts()?);
    let target = Target::start(Kind::Herdsman)?;
    let ours = timed(&kubectl, &target)?;
    let mut complaints = wrong(&kubectl, target.kind(), &ours);
    complaints.extend(differences(&kubectl, &scripts, &recorded::read(&scripts)?, &ours));
    ensure!(complaints.is_empty(), "{} complaints:\n{}", complaints.len(), complaints.join("\n"));
    Ok(())
}

/// A real server and ours. `KUBECTL_TARGETS=kubernetes` is the real one alone, which shows that the scripts are right;
/// `kubernetes,kubernetes` is two of them, which shows that the masks hide what differs from run to run.
fn targets() -> Result<Vec<Target>> {
    let names = std::env::var("KUBECTL_TARGETS").unwrap_or_else(|_| "kubernetes,herdsman".to_owned());
    let kind = |name: &str| if name == "kubernetes" { Kind::Kubernetes } else { Kind::Herdsman };
    names.split(',').map(|name| Target::start(kind(name))).collect()
}

#[test]
fn there_are_enough_commands() -> Result<()> {
    let count: usize = script::all("kubectl")?.iter().map(|script| script.commands.len()).sum();
    ensure!(count >= LEAST_COMMANDS, "{count} commands");
    Ok(())
}

/// Those that `KUBECTL_ONLY` names; all without.
fn scripts() -> Result<Vec<Script>> {
    let only = std::env::var("KUBECTL_ONLY").unwrap_or_default();
    Ok(script::all("kubectl")?.into_iter().filter(|script| script.name.contains(&only)).collect())
}

/// Those whose minor versions `KUBECTL_MINORS` lists (`29,34`); without it the oldest, the newest, and two between.
fn kubectls() -> Result<Vec<Kubectl>> {
    let found = versions::found()?;
    if found.len() < LEAST_VERSIONS {
        let versions: Vec<u32> = found.iter().map(|kubectl| kubectl.minor).collect();
        // Not println: the test harness would swallow it.
        writeln!(std::io::stdout(), "skip kubectl-versions: only {versions:?} are on this machine")?;
    }
    let Ok(wanted) = std::env::var("KUBECTL_MINORS") else { return versions::chosen() };
    let wanted: Vec<&str> = wanted.split(',').collect();
    Ok(found.into_iter().filter(|kubectl| wanted.contains(&kubectl.minor.to_string().as_str())).collect())
}

fn timed(kubectl: &Kubectl, target: &Target) -> Result<Transcript> {
    let started = SystemClock.monotonic();
    let transcript = run(&scripts()?, kubectl, &[], target.kubeconfig())?;
    let took = SystemClock.monotonic().since(started);
    println!(
        "kubectl 1.{} on {:?}: {} commands in {:.1} s",
        kubectl.minor,
        target.kind(),
        transcript.len(),
        took.as_secs_f32()
    );
    if std::env::var_os("KUBECTL_SHOW").is_some() {
        transcript.iter().for_each(|((script, index), did)| println!("# {script} {index}\n{}", did.output));
    }
    Ok(transcript)
}
