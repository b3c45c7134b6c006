//! Admission of Cluster API's kinds and of ours, and conversion of the former, on a Kubernetes that is there already: a TLS
//! listener, and what makes the API server ask it.

mod endpoint;

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use ::gateway::Certificates;
use anyhow::Context as _;
use capi::Definitions;
use capi::review::{self, Asked};
use controllers::admission::Door;
use controllers::admission::review::{self as ours, Hook};
use controllers::controlplane::Releases;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use kit::Caches;
use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject, Patch, PatchParams};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::{Notify, watch};
use tokio_rustls::TlsAcceptor;

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
/// The most that is read of a review.
const LARGEST: usize = 16 << 20;
/// The version that rules are written for.
const VERSION: &str = "v1beta2";

/// Where webhooks are served, and where the API server reaches them.
pub(crate) struct Webhooks {
    pub(crate) client: Client,
    pub(crate) caches: Caches,
    pub(crate) listener: TcpListener,
    /// What is shown there. It renews itself.
    pub(crate) certificates: Certificates,
    /// Tells that others vouch for it: the API server has to know.
    pub(crate) vouched_for_anew: Notify,
    pub(crate) endpoint: Endpoint,
    pub(crate) releases: Arc<Releases>,
    /// Which kinds the API server is told to ask us about. Whatever it asks is answered.
    pub(crate) about: About,
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
    /// Answers until the future is dropped or nothing can be served any more. Every process of ours does.
    pub(crate) async fn serve(&self) -> anyhow::Result<()> {
        let (known, definitions) = watch::channel(None);
        let door = Arc::new(Door::opened(self.client.clone(), self.releases.clone()));
        let answers = Answers { definitions, door };
        let learn = async {
            known.send_replace(Some(Arc::new(Definitions::of(&self.caches).await)));
        };
        let acceptor = TlsAcceptor::from(self.certificates.server_config()?);
        tokio::join!(learn, serve(&self.listener, acceptor, &answers)).1
    }

    /// Has the API server ask, until the future is dropped. One process does; the definitions have to be there.
    pub(crate) async fn keep_installed(&self) {
        loop {
            let pause = match self.install().await {
                Ok(()) => {
                    let at = self.endpoint.to_string();
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
                () = self.vouched_for_anew.notified() => {}
                () = tokio::time::sleep(pause) => {}
            }
        }
    }

    async fn install(&self) -> anyhow::Result<()> {
        let asks = Asks { endpoint: &self.endpoint, authority: &self.certificates.trusted() };
        for Configuration { kind, plural, name, webhooks } in configurations(self.about, asks) {
            let registration = resource("admissionregistration.k8s.io", kind, plural);
            let api: Api<DynamicObject> = Api::all_with(self.client.clone(), &registration);
            let document = json!({
                "apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": {"name": name},
                "webhooks": webhooks
            });
            let options = PatchParams::apply(name).force();
            let applied = api.patch(name, &options, &Patch::Apply(document)).await;
            applied.with_context(|| format!("cannot install the {kind} {name}"))?;
        }
        if !self.about.core {
            return Ok(());
        }
        let definitions =
            resource("apiextensions.k8s.io", "CustomResourceDefinition", "customresourcedefinitions");
        let api: Api<DynamicObject> = Api::all_with(self.client.clone(), &definitions);
        for name in converted() {
            let patch =
                json!({"spec": {"conversion": {"webhook": {"clientConfig": asks.instead("/convert")}}}});
            let patched = api.patch(&name, &PatchParams::default(), &Patch::Merge(patch)).await;
            patched.with_context(|| format!("cannot have {name} converted"))?;
        }
        Ok(())
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
            "admissionReviewVersions": ["v1"], "sideEffects": "NoneOnDryRun",
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

/// What answers reviews.
#[derive(Clone)]
struct Answers {
    /// Not there until the CRDs have been read once.
    definitions: watch::Receiver<Option<Arc<Definitions>>>,
    door: Arc<Door>,
}

impl Answers {
    /// What is known of CRDs: whoever asks at the very start waits for it.
    async fn definitions(&self) -> Option<Arc<Definitions>> {
        let mut definitions = self.definitions.clone();
        definitions.wait_for(Option::is_some).await.ok()?.clone()
    }
}

async fn serve(listener: &TcpListener, acceptor: TlsAcceptor, answers: &Answers) -> anyhow::Result<()> {
    loop {
        let (stream, _) = listener.accept().await.context("webhooks cannot be served any more")?;
        let (acceptor, answers) = (acceptor.clone(), answers.clone());
        tokio::spawn(async move {
            let Ok(stream) = acceptor.accept(stream).await else { return };
            let answer = service_fn(move |request| answer(request, answers.clone()));
            let served =
                Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(stream), answer).await;
            if let Err(error) = served {
                tracing::debug!(error, "a webhook's connection broke");
            }
        });
    }
}

async fn answer(request: Request<Incoming>, answers: Answers) -> Result<Response<Full<Bytes>>, Infallible> {
    let path = request.uri().path().to_owned();
    let ready = answers.definitions.borrow().is_some();
    match (path.as_str(), ready) {
        ("/healthz" | "/livez", _) | ("/readyz", true) => return Ok(plain(StatusCode::OK, "ok")),
        ("/readyz", false) => {
            let why = "the CustomResourceDefinitions have not been read yet";
            return Ok(plain(StatusCode::SERVICE_UNAVAILABLE, why));
        }
        _ => {}
    }
    let body = match Limited::new(request.into_body(), LARGEST).collect().await {
        Ok(body) => body.to_bytes(),
        Err(error) => return Ok(plain(StatusCode::BAD_REQUEST, error.to_string())),
    };
    let review: Value = match serde_json::from_slice(&body) {
        Ok(review) => review,
        Err(error) => return Ok(plain(StatusCode::BAD_REQUEST, format!("this is no review: {error}"))),
    };
    let answer = match (path.as_str(), review::asked(&path), ours::asked(&path)) {
        ("/convert", ..) => match answers.definitions().await {
            Some(definitions) => review::convert(&review, &*definitions),
            None => return Ok(plain(StatusCode::SERVICE_UNAVAILABLE, "this server is about to end")),
        },
        (_, Some(asked), _) => review::admit(asked, &review),
        (_, _, Some(asked)) => ours::admit(&answers.door, asked, &review).await,
        _ => return Ok(plain(StatusCode::NOT_FOUND, format!("there is no webhook {path}"))),
    };
    let mut response = plain(StatusCode::OK, answer.to_string());
    response
        .headers_mut()
        .insert("content-type", hyper::header::HeaderValue::from_static("application/json"));
    Ok(response)
}

fn plain(code: StatusCode, text: impl Into<String>) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(text.into())));
    *response.status_mut() = code;
    response
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
