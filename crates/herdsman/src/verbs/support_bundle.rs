//! `herdsman support-bundle`: everything that helps to help, in one file, without secrets.

use std::path::PathBuf;

use anyhow::Context as _;
use clock::{Clock as _, SystemClock};
use flate2::Compression;
use flate2::write::GzEncoder;
use kit::KindId;
use kube::Api;
use kube::api::{DynamicObject, ListParams};
use kube::discovery::{Discovery, Scope, verbs};
use serde_json::Value;

use super::ask::{Ask, explained};
use super::output::{self, Format};
use super::redact::redact;
use super::target::{Target, block_on};

/// The groups whose objects are gathered, wherever they are.
const GROUPS: [&str; 10] = [
    "provisioning.cattle.io",
    "rke.cattle.io",
    "cluster.x-k8s.io",
    "management.cattle.io",
    "rke-machine.cattle.io",
    "rke-machine-config.cattle.io",
    "ipam.cluster.x-k8s.io",
    "plan.cattle.io",
    "operation.cattle.io",
    "infrastructure.cluster.x-k8s.io",
];
/// Of the built-in kinds only these, in namespaces that have objects of ours.
const BUILT_IN: [(&str, &str, &str, &str); 6] = [
    ("", "v1", "Event", "events"),
    ("", "v1", "Secret", "secrets"),
    ("", "v1", "ConfigMap", "configmaps"),
    ("batch", "v1", "Job", "jobs"),
    ("coordination.k8s.io", "v1", "Lease", "leases"),
    ("apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions"),
];

/// What can be said on the command line.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The file to make
    #[arg(long, value_name = "FILE", default_value = "herdsman-support.tar.gz")]
    to: PathBuf,
    #[command(flatten)]
    target: Target,
}

/// Makes the file.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    block_on(async {
        let ask = Ask::new(&arguments.target).await?;
        let files = gather(&ask).await?;
        let packed = pack(&files)?;
        apiserver::files::replace_secret(&arguments.to, &packed)?;
        println!(
            "{} files in {}; look through them before you pass them on",
            files.len(),
            arguments.to.display()
        );
        Ok(())
    })
}

/// Files by name.
async fn gather(ask: &Ask) -> anyhow::Result<Vec<(String, String)>> {
    let version = ask.client.apiserver_version().await.map_err(explained)?;
    let mut files = vec![
        (
            "version.txt".into(),
            format!("herdsman {}\nserver {}\n", env!("CARGO_PKG_VERSION"), version.git_version),
        ),
        ("taken-at.txt".into(), format!("{}\n", SystemClock.now())),
    ];
    for (kind, namespaced) in kinds(ask).await? {
        let api: Api<DynamicObject> = Api::all_with(ask.client.clone(), &kind.resource());
        // What one kind refuses keeps nobody from the others.
        let found = match api.list(&ListParams::default()).await {
            Ok(found) => found.items,
            Err(error) => {
                files.push((format!("{}/{}.error.txt", folder(&kind), kind.plural), format!("{error}\n")));
                continue;
            }
        };
        for object in found {
            files.push(file(&kind, namespaced, serde_json::to_value(object)?)?);
        }
    }
    Ok(files)
}

async fn kinds(ask: &Ask) -> anyhow::Result<Vec<(KindId, bool)>> {
    let discovery = Discovery::new(ask.client.clone()).filter(&GROUPS).run().await.map_err(explained)?;
    let mut found: Vec<(KindId, bool)> = BUILT_IN
        .iter()
        .map(|(group, version, kind, plural)| {
            (KindId::new(group, version, kind, plural), *plural != "customresourcedefinitions")
        })
        .collect();
    for group in discovery.groups() {
        for (resource, capabilities) in group.recommended_resources() {
            if capabilities.supports_operation(verbs::LIST) {
                let kind = KindId::new(&resource.group, &resource.version, &resource.kind, &resource.plural);
                found.push((kind, capabilities.scope == Scope::Namespaced));
            }
        }
    }
    Ok(found)
}

fn folder(kind: &KindId) -> &str {
    if kind.group.is_empty() { "core" } else { &kind.group }
}

fn file(kind: &KindId, namespaced: bool, mut object: Value) -> anyhow::Result<(String, String)> {
    object["apiVersion"] = kind.api_version().into();
    object["kind"] = kind.kind.clone().into();
    if kind.plural == "customresourcedefinitions" {
        // Schemas are ours and large.
        object["spec"]["versions"] = Value::Null;
    }
    redact(&mut object);
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let name = text(&object["metadata"]["name"]);
    let inside =
        if namespaced { format!("{}/", text(&object["metadata"]["namespace"])) } else { String::new() };
    let path = format!("{}/{}/{inside}{name}.yaml", folder(kind), kind.plural);
    Ok((path, output::document(&object, Format::Yaml)?))
}

fn pack(files: &[(String, String)]) -> anyhow::Result<Vec<u8>> {
    let mut archive = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::default()));
    for (path, text) in files {
        let mut header = tar::Header::new_gnu();
        header.set_size(text.len() as u64);
        header.set_mode(0o644);
        archive
            .append_data(&mut header, format!("herdsman-support/{path}"), text.as_bytes())
            .context(path.clone())?;
    }
    Ok(archive.into_inner()?.finish()?)
}
