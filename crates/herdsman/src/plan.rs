//! `herdsman plan`: what a change of a cluster would do to its nodes, before anything happens.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context as _, bail};
use api::machine::MachineConfig;
use api::provisioning::v1::Cluster;
use clock::{Clock as _, SystemClock};
use controllers::controlplane::gather::Ground;
use controllers::controlplane::known::Lists;
use controllers::controlplane::preview::{Change, Weight, preview};
use controllers::controlplane::{Releases, Settings, server_info};
use kit::Key;
use kube::Client;
use serde_json::Value;

use crate::releases::ReleaseArguments;
use crate::verbs::target::{NAMESPACE, Target, block_on};

/// Exit status: something changes, and no node is disturbed.
const HARMLESS: u8 = 2;
/// Exit status: nodes restart, are drained, are replaced or go.
const DISTURBING: u8 = 3;

/// What can be said on the command line.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The Cluster as it should become, and machine configs that change with it; `-` reads stdin
    #[arg(short = 'f', long = "filename", value_name = "FILE")]
    file: PathBuf,
    /// How to reach the server; by default KUBECONFIG, then what `herdsman up` wrote, then ~/.kube/config
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// How it is printed
    #[arg(short = 'o', long = "output", value_name = "FORMAT", default_value = "table")]
    output: Output,
    #[command(flatten)]
    releases: ReleaseArguments,
}

/// How something is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Output {
    /// For people
    Table,
    /// For programs
    Json,
}

/// Prints what would happen. 0: nothing, 2: no node is disturbed, 3: nodes are.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let proposal = Proposal::read(&arguments.file)?;
    let target = Target { kubeconfig: arguments.kubeconfig.clone(), namespace: NAMESPACE.into() };
    let releases = arguments.releases.read()?;
    let change = block_on(async { look(&target.client().await?, proposal, releases).await })?;
    match arguments.output {
        Output::Json => println!("{}", serde_json::to_string_pretty(&change.document())?),
        Output::Table => print!("{}", table(&change)),
    }
    Ok(match change.weight() {
        Weight::Nothing => ExitCode::SUCCESS,
        Weight::Harmless => ExitCode::from(HARMLESS),
        Weight::Disturbing => ExitCode::from(DISTURBING),
    })
}

/// What a file proposes.
#[derive(Debug)]
struct Proposal {
    cluster: Cluster,
    configs: Vec<MachineConfig>,
}

impl Proposal {
    fn read(path: &Path) -> anyhow::Result<Self> {
        let mut text = String::new();
        match path.to_str() {
            Some("-") => drop(std::io::stdin().read_to_string(&mut text).context("cannot read stdin")?),
            _ => {
                text = std::fs::read_to_string(path)
                    .with_context(|| format!("cannot read {}", path.display()))?
            }
        }
        Proposal::parse(&text).with_context(|| format!("{} cannot be used", path.display()))
    }

    fn parse(text: &str) -> anyhow::Result<Self> {
        let documents: Vec<Value> = serde_saphyr::from_multiple(text).context("it is not YAML")?;
        let (mut clusters, mut configs) = (Vec::new(), Vec::new());
        for document in documents.into_iter().filter(|document| !document.is_null()) {
            let group =
                document["apiVersion"].as_str().unwrap_or_default().split('/').next().unwrap_or_default();
            match (group, document["kind"].as_str().unwrap_or_default()) {
                ("provisioning.cattle.io", "Cluster") => {
                    clusters.push(serde_json::from_value(document).context("the Cluster cannot be read")?);
                }
                (group, _) if group == api::machine::CONFIG_GROUP => {
                    configs
                        .push(serde_json::from_value(document).context("a machine config cannot be read")?);
                }
                (_, kind) => bail!("{kind} is neither a provisioning.cattle.io Cluster nor a machine config"),
            }
        }
        let Ok([mut cluster]) = <[Cluster; 1]>::try_from(clusters) else {
            bail!("it must have exactly one provisioning.cattle.io/v1 Cluster")
        };
        if cluster.metadata.name.as_deref().unwrap_or_default().is_empty() {
            bail!("metadata.name: the Cluster has none");
        }
        cluster.metadata.namespace.get_or_insert_with(|| api::catalogue::namespaces::FLEET_DEFAULT.into());
        Ok(Proposal { cluster, configs })
    }
}

async fn look(client: &Client, proposal: Proposal, releases: Arc<Releases>) -> anyhow::Result<Change> {
    let Proposal { cluster, configs } = proposal;
    let key = Key::of(&cluster.metadata);
    let mut lists = Lists::read(client, &key.namespace).await?;
    lists.read_configs(client, &cluster).await?;
    let settings = Settings { releases, ..Settings::default() };
    let server = server_info(&lists);
    let ground = Ground { known: &lists, settings: &settings, server: &server, now: SystemClock.now() };
    preview(&ground, &cluster, &configs).with_context(|| format!("Cluster {key}"))
}

/// The change for people.
fn table(change: &Change) -> String {
    let mut text = match change.weight() {
        _ if change.new => format!("Cluster {} would be made.\n", change.cluster),
        Weight::Nothing => format!("Cluster {}: nothing changes.\n", change.cluster),
        Weight::Harmless => format!("Cluster {}: no node is disturbed.\n", change.cluster),
        Weight::Disturbing => format!("Cluster {}: nodes are disturbed.\n", change.cluster),
    };
    for (name, pool) in &change.pools {
        if let Some(words) = pool.words() {
            text += &format!("pool {name}: {words}\n");
        }
    }
    let rows = change.nodes.nodes.iter().enumerate().map(|(index, node)| {
        let files: Vec<String> = node.files.iter().map(|(path, change)| format!("{change} {path}")).collect();
        let impact = if node.joins { "joins".into() } else { node.impact.to_string() };
        let pace = node.at_a_time.map_or_else(|| "all".into(), |count| count.to_string());
        [
            (index + 1).to_string(),
            node.machine.to_string(),
            node.tier.as_str().into(),
            impact,
            pace,
            files.join(", "),
        ]
    });
    let rows: Vec<[String; 6]> = rows.collect();
    if !rows.is_empty() {
        let heads = ["#", "MACHINE", "TIER", "IMPACT", "AT A TIME", "FILES"].map(String::from);
        text += &columns(&[vec![heads], rows].concat());
    }
    for warning in &change.nodes.warnings {
        text += &format!("warning: {warning}\n");
    }
    for wait in &change.nodes.waits {
        text += &format!("waits: {wait}\n");
    }
    text
}

/// Rows under each other, two spaces between columns.
fn columns(rows: &[[String; 6]]) -> String {
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or_default();
    let widths: Vec<usize> = (0..6).map(width).collect();
    let mut text = String::new();
    for row in rows {
        let cells: Vec<String> =
            row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        text += cells.join("  ").trim_end();
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_one_cluster_and_perhaps_machine_configs() {
        let cluster = "apiVersion: provisioning.cattle.io/v1\nkind: Cluster\nmetadata: {name: c}\n";
        let config =
            "---\napiVersion: rke-machine-config.cattle.io/v1\nkind: SimConfig\nmetadata: {name: m}\n";
        let read = Proposal::parse(&format!("{cluster}{config}")).unwrap();
        assert_eq!(read.cluster.metadata.namespace.as_deref(), Some("fleet-default"));
        assert_eq!(read.configs[0].kind, "SimConfig");
        for (text, words) in [
            (config, "exactly one"),
            (&format!("{cluster}---\n{cluster}")[..], "exactly one"),
            ("apiVersion: v1\nkind: Pod\n", "Pod is neither"),
            ("apiVersion: provisioning.cattle.io/v1\nkind: Cluster\nmetadata: {}\n", "metadata.name"),
        ] {
            let error = format!("{:#}", Proposal::parse(text).unwrap_err());
            assert!(error.contains(words), "{error}");
        }
    }

    #[test]
    fn columns_are_aligned() {
        let row = |words: [&str; 6]| words.map(String::from);
        let text = columns(&[row(["#", "M", "T", "I", "A", "F"]), row(["10", "machine", "", "", "", ""])]);
        assert_eq!(text, "#   M        T  I  A  F\n10  machine\n");
    }
}
