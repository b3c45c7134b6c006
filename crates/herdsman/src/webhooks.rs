//! Admission of Cluster API's kinds and of ours, and conversion of the former, on a Kubernetes that is there already: a TLS
//! listener, and what makes the API server ask it.

mod answers;
mod endpoint;

use std::sync::Arc;
use std::time::Duration;

use ::gateway::{Authorities, Certificates};
use anyhow::Context as _;
use capi::Definitions;
use capi::review::{self, Asked};
use controllers::admission::Door;
use controllers::admission::review::{self as ours, Hook};
use controllers::controlplane::Releases;
use kit::Caches;
use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject, Patch, PatchParams};
use rustls::RootCertStore;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;

use answers::Answers;
use endpoint::Asks;
pub(crate) use endpoint::Endpoint;

/// The name of the configurations, and of whoever owns their fields.
const NAME: &str = "herdsman-capi";
/// The same for our own kinds.
const OUR_NAME: &str = "herdsman";
/// How often what the API server is told is told anew: somebody may have changed it, and nobody would be asked.
const TELL_AGAIN: Duration = Duration::from_secs(600);
/// How long after a failure it is tried again.
const RETRY: Duration = Duration::from_secs(5);
/// How long reviews have to be answered when no more are taken.
const DRAIN: Duration = Duration::from_secs(5);
/// The version that rules are written for.
const VERSION: &str = "v1beta2";

/// What webhooks are served with.
pub(crate) struct Setup {
    pub(crate) client: Client,
    pub(crate) caches: Caches,
    /// What is shown there. It renews itself.
    pub(crate) certificates: Certificates,
    /// Where the API server reaches them.
    pub(crate) endpoint: Endpoint,
    /// Which kinds the API server is told to ask us about. Whatever it asks is answered.
    pub(crate) about: About,
}

/// Webhooks that are served, until this is dropped.
pub(crate) struct Webhooks {
    setup: Setup,
    /// Tells that another authority has issued the certificate: the API server has to know.
    certificate_changed: Notify,
    definitions: watch::Sender<Option<Arc<Definitions>>>,
    serving: JoinHandle<()>,
}

/// Whose kinds are our business.
#[derive(Clone, Copy, Debug)]
pub(crate) struct About {
    /// Cluster API's: else whoever runs its controllers here looks after them.
    pub(crate) core: bool,
    /// Our own: a process that runs Cluster API's controllers alone knows nothing of them.
    pub(crate) ours: bool,
}

/// A configuration of webhooks that the API server is given.
struct Configuration {
    kind: &'static str,
    plural: &'static str,
    name: &'static str,
    webhooks: Vec<Value>,
}

impl Webhooks {
    /// Answers from now on. Every process of ours does. With `clients`, only who shows a certificate of these authorities is answered;
    /// without, anybody who reaches the port is, and learns nothing by it.
    ///
    /// # Errors
    /// If there is nothing to show.
    pub(crate) fn start(
        setup: Setup,
        listener: TcpListener,
        releases: Arc<Releases>,
        clients: Option<RootCertStore>,
    ) -> anyhow::Result<Self> {
        let (definitions, known) = watch::channel(None);
        let door = match &clients {
            Some(_) => Door::opened(setup.client.clone(), releases),
            None => Door::for_anybody(setup.client.clone(), releases),
        };
        let answers = Answers::new(known, door, clients.is_some());
        let tls = match clients {
            Some(clients) => setup.certificates.server_config_for(clients)?,
            None => setup.certificates.server_config()?,
        };
        let serving = tokio::spawn(apiserver::http::listen(answers, listener, Some(tls), DRAIN));
        Ok(Webhooks { setup, certificate_changed: Notify::new(), definitions, serving })
    }

    /// The caches that reviews are answered from.
    pub(crate) fn caches(&self) -> Caches {
        self.setup.caches.clone()
    }

    /// Reads the CRDs, without which nothing is converted.
    pub(crate) async fn learn(&self) {
        self.definitions.send_replace(Some(Arc::new(Definitions::of(&self.setup.caches).await)));
    }

    /// Other authorities issue what is shown from now on.
    ///
    /// # Errors
    /// If nothing can be issued; then the last one stays.
    pub(crate) fn replace_authorities(&self, authorities: Authorities) -> anyhow::Result<()> {
        self.setup.certificates.replace_authorities(authorities)?;
        self.certificate_changed.notify_one();
        Ok(())
    }

    /// Has the API server ask, until the future is dropped. One process does; the definitions have to be there.
    pub(crate) async fn keep_installed(&self) {
        loop {
            let pause = match self.install().await {
                Ok(()) => {
                    let at = self.setup.endpoint.to_string();
                    tracing::info!(at, "the API server asks us about clusters and Cluster API's kinds");
                    TELL_AGAIN
                }
                Err(error) => {
                    tracing::warn!(error = format!("{error:#}"), "the API server is not told to ask us");
                    RETRY
                }
            };
            tokio::select! {
                biased;
                () = self.certificate_changed.notified() => {}
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    async fn install(&self) -> anyhow::Result<()> {
        let Setup { client, endpoint, certificates, about, .. } = &self.setup;
        let asks = Asks { endpoint, authority: &certificates.trusted() };
        for Configuration { kind, plural, name, webhooks } in configurations(*about, asks) {
            let registration = resource("admissionregistration.k8s.io", kind, plural);
            let api: Api<DynamicObject> = Api::all_with(client.clone(), &registration);
            let document = json!({
                "apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": {"name": name},
                "webhooks": webhooks
            });
            let options = PatchParams::apply(name).force();
            let applied = api.patch(name, &options, &Patch::Apply(document)).await;
            applied.with_context(|| format!("cannot install the {kind} {name}"))?;
        }
        if !about.core {
            return Ok(());
        }
        let definitions =
            resource("apiextensions.k8s.io", "CustomResourceDefinition", "customresourcedefinitions");
        let api: Api<DynamicObject> = Api::all_with(client.clone(), &definitions);
        for name in converted() {
            let patch =
                json!({"spec": {"conversion": {"webhook": {"clientConfig": asks.instead("/convert")}}}});
            let patched = api.patch(&name, &PatchParams::default(), &Patch::Merge(patch)).await;
            patched.with_context(|| format!("cannot have {name} converted"))?;
        }
        Ok(())
    }
}

impl Drop for Webhooks {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

/// Everything that the API server is told, but for who converts.
fn configurations(about: About, asks: Asks<'_>) -> Vec<Configuration> {
    let mut all = Vec::new();
    for (asked, kind, plural) in [
        (Asked::Mutate, "MutatingWebhookConfiguration", "mutatingwebhookconfigurations"),
        (Asked::Validate, "ValidatingWebhookConfiguration", "validatingwebhookconfigurations"),
    ] {
        if about.core {
            all.push(Configuration { kind, plural, name: NAME, webhooks: webhooks(asked, asks) });
        }
        if about.ours {
            all.push(Configuration { kind, plural, name: OUR_NAME, webhooks: our_webhooks(asked, asks) });
        }
    }
    all
}

fn resource(group: &str, kind: &str, plural: &str) -> ApiResource {
    ApiResource {
        group: group.into(),
        version: "v1".into(),
        api_version: format!("{group}/v1"),
        kind: kind.into(),
        plural: plural.into(),
    }
}

/// The CRDs whose objects are converted by webhook.
fn converted() -> Vec<String> {
    let all = api::crd::all().into_iter().filter(|crd| crd.spec.conversion.is_some());
    all.filter_map(|crd| crd.metadata.name).collect()
}

/// What the API server is told to ask.
fn webhooks(asked: Asked, asks: Asks<'_>) -> Vec<Value> {
    let kinds: &[&str] = match asked {
        Asked::Mutate => &review::FILLED_IN,
        Asked::Validate => &capi::admission::KINDS,
    };
    let webhook = |kind: &&str| {
        let path = review::path(asked, kind);
        let plural = format!("{}s", kind.to_lowercase());
        let what = if asked == Asked::Mutate { "default" } else { "validation" };
        json!({
            "name": format!("{what}.{}.cluster.x-k8s.io", kind.to_lowercase()),
            "clientConfig": asks.at(&path),
            "rules": [{
                "apiGroups": [capi::admission::GROUP], "apiVersions": [VERSION], "operations": ["CREATE", "UPDATE"],
                "resources": [plural]
            }],
            "admissionReviewVersions": ["v1"], "sideEffects": "None", "failurePolicy": "Fail",
            "matchPolicy": "Equivalent", "timeoutSeconds": 10
        })
    };
    kinds.iter().map(webhook).collect()
}

/// What the API server is told to ask about our own kinds.
fn our_webhooks(asked: Asked, asks: Asks<'_>) -> Vec<Value> {
    let to = match asked {
        Asked::Mutate => ours::Asked::Mutate,
        Asked::Validate => ours::Asked::Validate,
    };
    let webhook = |hook: &Hook| {
        let operations: Vec<&str> = hook
            .operations
            .iter()
            .copied()
            .filter(|one| asked == Asked::Validate || *one != "DELETE")
            .collect();
        let mut webhook = json!({
            "name": format!("{}.{}", if asked == Asked::Mutate { "default" } else { "validation" }, hook.name),
            "clientConfig": asks.at(&ours::path(to, hook)),
            "rules": [{
                "apiGroups": [hook.group], "apiVersions": [hook.version], "operations": operations,
                "resources": [hook.resource]
            }],
            "admissionReviewVersions": ["v1"], "sideEffects": "None",
            "failurePolicy": if hook.optional { "Ignore" } else { "Fail" },
            "matchPolicy": "Equivalent", "timeoutSeconds": 10
        });
        if !hook.only.is_empty() {
            webhook["matchConditions"] = json!([{"name": "ours", "expression": hook.only}]);
        }
        webhook
    };
    ours::HOOKS.iter().filter(|hook| asked == Asked::Validate || hook.fills_in).map(webhook).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_is_asked_about() {
        let endpoint = Endpoint::parse("https://h:1").unwrap();
        let asks = Asks { endpoint: &endpoint, authority: "ca" };
        assert_eq!(webhooks(Asked::Validate, asks).len(), 6);
        let first = &webhooks(Asked::Mutate, asks)[0];
        assert_eq!(first["clientConfig"]["url"], "https://h:1/mutate-cluster-x-k8s-io-v1beta2-machine");
        assert_eq!(first["rules"][0]["resources"], json!(["machines"]));
        assert_eq!(our_webhooks(Asked::Validate, asks).len(), ours::HOOKS.len());
        let clusters = &our_webhooks(Asked::Mutate, asks)[0];
        assert_eq!(clusters["clientConfig"]["url"], "https://h:1/mutate/clusters.provisioning.cattle.io");
        assert_eq!(
            clusters["rules"][0]["operations"],
            json!(["CREATE", "UPDATE"]),
            "nothing to fill in at the end"
        );
        assert!(converted().contains(&"machines.cluster.x-k8s.io".to_owned()));
    }

    #[test]
    fn nobody_is_asked_about_kinds_of_others() {
        let endpoint = Endpoint::parse("https://h:1").unwrap();
        let asks = Asks { endpoint: &endpoint, authority: "ca" };
        let names = |core, ours| -> Vec<&str> {
            configurations(About { core, ours }, asks).iter().map(|one| one.name).collect()
        };
        assert_eq!(names(true, true), [NAME, OUR_NAME, NAME, OUR_NAME]);
        assert_eq!(names(true, false), [NAME, NAME]);
        assert_eq!(names(false, true), [OUR_NAME, OUR_NAME]);
    }
}
