//! A real Helm, two servers: the same exit codes, the same output, the same objects.

use anyhow::{Context, Result, ensure};
use peers::Peer;
use suites::kubectl::compare::{differences, wrong};
use suites::kubectl::run::run;
use suites::kubectl::{script, versions};
use suites::target::{Kind, Target};

#[test]
#[ignore = "peers: kubernetes, etcd, helm, kubectl, kubectl-newest"]
fn helm_on_both() -> Result<()> {
    if peers::skip("helm") {
        return Ok(());
    }
    let helm = Peer::Helm.provide()?.path.join("helm");
    let kubectl = versions::found()?.pop().context("no kubectl")?;
    let scripts = script::all("helm")?;
    let (mut complaints, mut transcripts) = (Vec::new(), Vec::new());
    for kind in [Kind::Kubernetes, Kind::Herdsman] {
        let target = Target::start(kind)?;
        let transcript = run(&scripts, &kubectl, std::slice::from_ref(&helm), target.kubeconfig())?;
        complaints.extend(wrong(&kubectl, kind, &transcript));
        transcripts.push(transcript);
    }
    complaints.extend(differences(&kubectl, &scripts, &transcripts[0], &transcripts[1]));
    ensure!(complaints.is_empty(), "{} complaints:\n{}", complaints.len(), complaints.join("\n"));
    Ok(())
}
