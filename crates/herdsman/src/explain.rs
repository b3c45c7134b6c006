//! `herdsman explain`: what is waited for, since when, and what to do.

use std::sync::Arc;

use anyhow::bail;
use clock::{Clock as _, SystemClock};
use controllers::controlplane::explain::{Explained, Question, explain};
use controllers::controlplane::gather::Ground;
use controllers::controlplane::known::Lists;
use controllers::controlplane::{Releases, Settings, server_info};
use jiff::Timestamp;
use kit::Key;
use kube::Client;
use serde_json::json;

use crate::releases::ReleaseArguments;
use crate::verbs::ask::Ask;
use crate::verbs::kinds::{self, nearest};
use crate::verbs::target::{Target, block_on};

/// What can be said on the command line.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// What it is about: cluster/NAME, controlplane/NAME or machine/NAME
    #[arg(value_name = "KIND/NAME")]
    subject: String,
    #[command(flatten)]
    target: Target,
    /// How it is printed
    #[arg(short = 'o', long = "output", value_name = "FORMAT", default_value = "text")]
    output: Output,
    #[command(flatten)]
    releases: ReleaseArguments,
}

/// How something is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Output {
    /// For people
    Text,
    /// For programs
    Json,
}

/// Prints what is waited for.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let question = question(&arguments.subject, &arguments.target.namespace)?;
    let waits = block_on(async {
        let ask = Ask::new(&arguments.target).await?;
        // Its absence is told with the nearest name.
        let (word, key) = match &question {
            Question::Cluster(key) => ("cluster", key),
            Question::ControlPlane(key) => ("controlplane", key),
            Question::Machine(key) => ("machine", key),
        };
        ask.object(kinds::find(word)?, &key.name).await?;
        look(&ask.client, &question, arguments.releases.read()?).await
    })?;
    match arguments.output {
        Output::Json => println!("{}", serde_json::to_string_pretty(&json!({"waits": waits}))?),
        Output::Text => print!("{}", text(&arguments.subject, &waits, SystemClock.now())),
    }
    Ok(())
}

fn question(subject: &str, namespace: &str) -> anyhow::Result<Question> {
    let Some((kind, name)) = subject.split_once('/').filter(|(_, name)| !name.is_empty()) else {
        let name = subject.trim_end_matches('/');
        bail!("{subject:?}: must be KIND/NAME, such as cluster/{name} or machine/{name}");
    };
    let key = Key::new(namespace, name);
    Ok(match kind.to_ascii_lowercase().as_str() {
        "cluster" | "clusters" | "clusters.provisioning.cattle.io" => Question::Cluster(key),
        "controlplane" | "rkecontrolplane" | "rkecontrolplanes" | "rcp" => Question::ControlPlane(key),
        "machine" | "machines" | "machines.cluster.x-k8s.io" => Question::Machine(key),
        _ => {
            let near = nearest(kind, ["cluster", "controlplane", "machine"].into_iter());
            let hint = near.map(|near| format!("; did you mean {near:?}?")).unwrap_or_default();
            bail!("{kind:?}: must be one of cluster, controlplane, machine{hint}")
        }
    })
}

async fn look(
    client: &Client,
    question: &Question,
    releases: Arc<Releases>,
) -> anyhow::Result<Vec<Explained>> {
    let (Question::Cluster(key) | Question::ControlPlane(key) | Question::Machine(key)) = question;
    let lists = Lists::read(client, &key.namespace).await?;
    let settings = Settings { releases, ..Settings::default() };
    let server = server_info(&lists);
    let ground = Ground { known: &lists, settings: &settings, server: &server, now: SystemClock.now() };
    Ok(explain(&ground, question)?)
}

/// The waits for people.
fn text(subject: &str, waits: &[Explained], now: Timestamp) -> String {
    if waits.is_empty() {
        return format!("{subject} waits for nothing.\n");
    }
    let mut text = String::new();
    for wait in waits {
        let since = wait.since.map(|since| format!(", for {}", age(since, now))).unwrap_or_default();
        text += &format!("{}: {} ({}{since})\n", wait.subject, wait.awaits, wait.code);
        if let Some(evidence) = &wait.evidence {
            text += &format!("    last seen: {evidence}\n");
        }
        text += &format!("    to do: {}\n", wait.remedy);
    }
    text
}

/// How long ago, in its two largest units.
fn age(since: Timestamp, now: Timestamp) -> String {
    let seconds = now.duration_since(since).as_secs().max(0);
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3_600 => format!("{}m{}s", seconds / 60, seconds % 60),
        3_600..86_400 => format!("{}h{}m", seconds / 3_600, seconds % 3_600 / 60),
        _ => format!("{}d{}h", seconds / 86_400, seconds % 86_400 / 3_600),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subjects_are_kinds_and_names() {
        let key = || Key::new("n", "x");
        assert_eq!(question("cluster/x", "n").unwrap(), Question::Cluster(key()));
        assert_eq!(question("RKEControlPlane/x", "n").unwrap(), Question::ControlPlane(key()));
        assert_eq!(question("machines.cluster.x-k8s.io/x", "n").unwrap(), Question::Machine(key()));
        for wrong in ["cluster", "cluster/", "pod/x"] {
            assert!(question(wrong, "n").is_err(), "{wrong}");
        }
        let words = question("machin/x", "n").unwrap_err().to_string();
        assert!(words.contains("did you mean \"machine\"?"), "{words}");
    }

    #[test]
    fn waits_are_said_with_their_age_and_what_to_do() {
        let now: Timestamp = "2026-01-01T01:02:03Z".parse().unwrap();
        let wait = Explained {
            code: "probes-unhealthy".into(),
            subject: "Machine n/m".into(),
            since: Some("2026-01-01T00:00:00Z".parse().unwrap()),
            awaits: "waiting for probes: kubelet".into(),
            evidence: Some("probes that fail: kubelet".into()),
            remedy: "look at it".into(),
        };
        assert_eq!(
            text("cluster/c", &[wait], now),
            "Machine n/m: waiting for probes: kubelet (probes-unhealthy, for 1h2m)\n    last seen: probes that fail: kubelet\n    to do: look at it\n"
        );
        assert_eq!(text("cluster/c", &[], now), "cluster/c waits for nothing.\n");
    }
}
