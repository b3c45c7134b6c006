//! One suite, two servers: a real Kubernetes and ours give the same answers to the same requests.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use suites::conformance::{case, document, run_all};
use suites::kubeconfig::Kubeconfig;
use suites::kubectl::script;
use suites::target::{Kind, Target};
use tokio::sync::Mutex;

/// What the suite has to have at least.
const LEAST_CASES: usize = 350;
/// How many of the slowest cases are named.
const SLOWEST: usize = 8;

#[tokio::test(flavor = "multi_thread")]
#[ignore = "peers: kubernetes, etcd"]
async fn conformance_on_kubernetes() -> Result<()> {
    if peers::skip("conformance") {
        return Ok(());
    }
    conforms(Kind::Kubernetes).await
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "default"]
async fn conformance_on_herdsman() -> Result<()> {
    conforms(Kind::Herdsman).await
}

/// Two servers at once would slow each other down.
static ONE_AT_A_TIME: Mutex<()> = Mutex::const_new(());

async fn conforms(kind: Kind) -> Result<()> {
    let _turn = ONE_AT_A_TIME.lock().await;
    let themes = case::all()?;
    let only = std::env::var("CONFORMANCE_ONLY").unwrap_or_default();
    // A server that runs already spares a developer the start.
    let given = std::env::var_os("CONFORMANCE_KUBECONFIG");
    let target = match &given {
        None => Some(tokio::task::spawn_blocking(move || Target::start(kind)).await??),
        Some(_) => None,
    };
    let path =
        target.as_ref().map(Target::kubeconfig).or(given.as_deref().map(Path::new)).context("no server")?;
    let audit_log = target.as_ref().map(|target| target.audit_log().to_owned());
    let outcome = run_all(kind, &Kubeconfig::read(path)?, audit_log, &themes, &only).await?;
    println!("{} cases in {:.1} s", outcome.cases, outcome.took.as_secs_f32());
    for (time, name) in outcome.times.iter().take(SLOWEST) {
        println!("{:.1} s: {name}", time.as_secs_f32());
    }
    let failed = outcome.failures.len();
    ensure!(failed == 0, "{failed} of {} cases failed:\n{}", outcome.cases, outcome.failures.join("\n"));
    Ok(())
}

#[test]
fn the_document_is_current() -> Result<()> {
    let themes = case::all()?;
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/conformance.md");
    let text = document::document(&themes, &script::all("kubectl")?);
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, &text)?;
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    ensure!(written == text, "docs/conformance.md is stale: {}", document::REFRESH);
    Ok(())
}

#[test]
fn there_are_enough_cases() -> Result<()> {
    let count: usize = case::all()?.iter().map(|theme| theme.cases.len()).sum();
    ensure!(count >= LEAST_CASES, "{count} cases");
    Ok(())
}
