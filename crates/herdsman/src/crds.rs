//! `herdsman crds`: the CustomResourceDefinitions, printed or installed.

use std::io::Write as _;
use std::time::Duration;

use anyhow::{Context as _, bail};
use clock::{Deadline, SystemClock};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, Client, ResourceExt as _};
use serde_json::{Value, json};
use tokio::task::JoinSet;

/// Who owns the fields that the installer writes.
const FIELD_MANAGER: &str = "herdsman";
/// The API server needs well under a second to serve a new kind; a loaded one gets half a minute.
const ESTABLISHED_WITHIN: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(50);

/// Prints all of them as one YAML stream.
pub(crate) fn print() -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    for crd in api::crd::all() {
        let yaml = serde_saphyr::to_string(&crd).context("writing a CRD as YAML")?;
        match write!(out, "---\n{yaml}") {
            // The reader has seen enough: `herdsman crds | head`.
            Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => return Ok(()),
            written => written.context("writing to stdout")?,
        }
    }
    Ok(())
}

/// Installs or updates all of them by server-side apply and waits until each is served.
pub(crate) fn install() -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let client = Client::try_default().await.context(
            "no cluster to install into: set KUBECONFIG, or have a ~/.kube/config, or run inside a cluster",
        )?;
        for name in ensure(&client, Whose::All).await? {
            println!("{name}");
        }
        Ok(())
    })
}

/// Which definitions that are there already are made ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Whose {
    /// All that we know.
    All,
    /// Not Cluster API's: somebody else runs its controllers, maybe of a version that knows more than we do.
    ButClusterApis,
}

impl Whose {
    /// Whether a definition that is there is left as it is.
    fn leaves(self, group: &str) -> bool {
        let core = group == "cluster.x-k8s.io" || group.ends_with(".cluster.x-k8s.io");
        self == Whose::ButClusterApis && core
    }
}

/// Puts all of them in place and waits until each is served; gives their names.
pub(crate) async fn ensure(client: &Client, whose: Whose) -> anyhow::Result<Vec<String>> {
    let crds = Api::<CustomResourceDefinition>::all(client.clone());
    let mut all = api::crd::all();
    let there = crds.list(&ListParams::default()).await.context("listing the CustomResourceDefinitions")?;
    let mut applied = JoinSet::new();
    for crd in &mut all {
        let found = there.iter().find(|one| one.metadata.name == crd.metadata.name);
        if found.is_some() && whose.leaves(&crd.spec.group) {
            continue;
        }
        keep_converter(crd, found);
        // An API server works for a second on every definition that is written, changed or not.
        if found.is_some_and(|found| says(&json!(found), &json!(crd))) {
            continue;
        }
        applied.spawn(apply(crds.clone(), crd.clone()));
    }
    while let Some(one) = applied.join_next().await {
        one.context("installing a CRD")??;
    }
    let names: Vec<String> = all.iter().map(|crd| crd.name_any()).collect();
    wait_all(client, &names).await?;
    Ok(names)
}

/// Waits until each of them is served, also of those that are not there yet.
pub(crate) async fn wait_all(client: &Client, names: &[String]) -> anyhow::Result<()> {
    let crds = Api::<CustomResourceDefinition>::all(client.clone());
    for name in names {
        wait_established(&crds, name).await?;
    }
    Ok(())
}

/// Whether everything that is wanted is there; what else is there does not matter.
fn says(found: &Value, wanted: &Value) -> bool {
    match (found, wanted) {
        (Value::Object(found), Value::Object(wanted)) => wanted
            .iter()
            .all(|(key, wanted)| wanted.is_null() || found.get(key).is_some_and(|found| says(found, wanted))),
        (Value::Array(found), Value::Array(wanted)) => {
            found.len() == wanted.len() && found.iter().zip(wanted).all(|(found, wanted)| says(found, wanted))
        }
        _ => found == wanted,
    }
}

/// Who converts now goes on to do so: where that is has been settled by whoever serves webhooks.
fn keep_converter(crd: &mut CustomResourceDefinition, found: Option<&CustomResourceDefinition>) {
    let converter = |crd: &CustomResourceDefinition| {
        crd.spec.conversion.as_ref()?.webhook.as_ref()?.client_config.clone()
    };
    let known = found.and_then(converter);
    let webhook = crd.spec.conversion.as_mut().and_then(|conversion| conversion.webhook.as_mut());
    if let (Some(webhook), Some(known)) = (webhook, known) {
        webhook.client_config = Some(known);
    }
}

async fn apply(crds: Api<CustomResourceDefinition>, crd: CustomResourceDefinition) -> anyhow::Result<()> {
    let params = PatchParams::apply(FIELD_MANAGER).force();
    let name = crd.name_any();
    crds.patch(&name, &params, &Patch::Apply(&crd)).await.with_context(|| format!("installing {name}"))?;
    Ok(())
}

async fn wait_established(crds: &Api<CustomResourceDefinition>, name: &str) -> anyhow::Result<()> {
    let deadline = Deadline::after(&SystemClock, ESTABLISHED_WITHIN);
    loop {
        let crd = crds.get_opt(name).await.with_context(|| format!("reading {name}"))?;
        let status = crd.and_then(|crd| crd.status);
        let conditions = status.and_then(|status| status.conditions).unwrap_or_default();
        if conditions.iter().any(|condition| condition.type_ == "Established" && condition.status == "True") {
            return Ok(());
        }
        if deadline.passed(&SystemClock) {
            let refused = conditions.iter().find(|condition| condition.status == "False");
            let reason = refused.and_then(|condition| condition.message.clone()).unwrap_or_default();
            bail!("{name} is not served after {} s: {reason}", ESTABLISHED_WITHIN.as_secs());
        }
        tokio::time::sleep(POLL).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_there_is_not_written_again() {
        let wanted = json!({"spec": {"names": ["a", {"b": 1}]}, "status": null});
        let defaulted = json!({"spec": {"names": ["a", {"b": 1, "c": 2}], "more": true}, "status": {}});
        assert!(says(&defaulted, &wanted));
        for other in [
            json!({"spec": {"names": ["a", {"b": 2}]}}),
            json!({"spec": {"names": ["a", {"b": 1}, "c"]}}),
            json!({"spec": {}}),
        ] {
            assert!(!says(&other, &wanted), "{other}");
        }
    }

    #[test]
    fn definitions_of_others_are_left_alone() {
        for group in ["cluster.x-k8s.io", "ipam.cluster.x-k8s.io"] {
            assert!(Whose::ButClusterApis.leaves(group) && !Whose::All.leaves(group), "{group}");
        }
        assert!(!Whose::ButClusterApis.leaves("rke.cattle.io"));
    }

    #[test]
    fn a_converter_that_works_stays() {
        let all = api::crd::all();
        let mut new = all.iter().find(|crd| crd.spec.conversion.is_some()).unwrap().clone();
        let mut there = new.clone();
        let config = |crd: &mut CustomResourceDefinition| {
            crd.spec.conversion.as_mut().unwrap().webhook.as_mut().unwrap().client_config.clone()
        };
        let usual = config(&mut new);
        keep_converter(&mut new, None);
        assert_eq!(config(&mut new), usual);
        let webhook = there.spec.conversion.as_mut().unwrap().webhook.as_mut().unwrap();
        let known = webhook.client_config.as_mut().unwrap();
        (known.service, known.url) = (None, Some("https://h:1/convert".into()));
        keep_converter(&mut new, Some(&there));
        assert_eq!(config(&mut new).unwrap().url.as_deref(), Some("https://h:1/convert"));
    }
}
