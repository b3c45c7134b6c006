//! The cluster agent's Deployment, in effect: while it is there and a node is alive, somebody dials the server with its token,
//! as the real one's pod would, and lets it reach the cluster's API.

use std::io;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use api::catalogue::namespaces;
use api::names;
use futures_util::StreamExt as _;
use http::Uri;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{Secret, ServiceAccount};
use kube::api::{Api, PostParams};
use kube::runtime::watcher::{self, Event, watcher};
use serde_json::{Value, json};
use tunnel::Target;
use tunnel::client::Backoff;
use tunnel::serve::{Dial, Io, Later};

use super::cluster::Cluster;
use super::ports::SERVICE;
use crate::line::{self, Offer};
use crate::network::Network;
use crate::upstream::{self, Unverified, Upstream};

/// After a watch that did not work.
const PAUSE: Duration = Duration::from_secs(5);
/// How long the agent's token of the cluster is good for: it is asked for anew with each session.
const LIFETIME: i64 = 365 * 24 * 3600;

/// What the Deployment says.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Asked {
    /// Name of the Deployment.
    name: String,
    server: String,
    ca_checksum: String,
    credentials: String,
    account: String,
}

impl Asked {
    fn of(deployment: &Value) -> Option<Self> {
        let name = deployment["metadata"]["name"].as_str()?;
        if ![names::CLUSTER_AGENT, names::CLUSTER_AGENT_BOOTSTRAP].contains(&name) {
            return None;
        }
        let spec = &deployment["spec"]["template"]["spec"];
        let env = spec["containers"][0]["env"].as_array()?;
        let of = |name: &str| {
            let found = env.iter().find(|one| one["name"] == name).and_then(|one| one["value"].as_str());
            found.unwrap_or_default().to_owned()
        };
        let volumes = spec["volumes"].as_array()?;
        let secret = volumes.iter().find_map(|volume| volume["secret"]["secretName"].as_str())?;
        Some(Asked {
            name: name.to_owned(),
            server: of("CATTLE_SERVER"),
            ca_checksum: of("CATTLE_CA_CHECKSUM"),
            credentials: secret.to_owned(),
            account: spec["serviceAccountName"].as_str().unwrap_or("default").to_owned(),
        })
    }
}

/// Follows the Deployment until it is dropped.
pub(super) async fn run(cluster: &Arc<Cluster>) {
    let deployments: Api<Deployment> =
        Api::namespaced(cluster.client("system:kubelet"), namespaces::CATTLE_SYSTEM);
    let mut events = watcher(deployments, watcher::Config::default()).boxed();
    let mut asked: Option<Asked> = None;
    loop {
        tokio::select! {
            biased;
            event = events.next() => match event {
                Some(Ok(Event::Apply(found) | Event::InitApply(found))) => asked = Asked::of(&json!(found)).or(asked),
                Some(Ok(Event::Delete(gone))) => asked = asked.filter(|one| gone.metadata.name.as_ref() != Some(&one.name)),
                Some(Ok(_)) => {}
                Some(Err(error)) => {
                    tracing::warn!(cluster = cluster.id, error = %agent::chain(&error), "no watch of the cluster agent");
                    tokio::time::sleep(PAUSE).await;
                }
                None => return,
            },
            () = sessions(cluster, asked.clone()) => {}
        }
    }
}

/// Sessions, one after the other, for ever.
async fn sessions(cluster: &Arc<Cluster>, asked: Option<Asked>) {
    let Some(asked) = asked else { return std::future::pending().await };
    let clock = cluster.base.clock.clone();
    let mut chance = cluster.base.chance.of(&format!("{} agent", cluster.id));
    let (mut backoff, mut registered, mut said) = (Backoff::default(), false, String::new());
    loop {
        cluster.until(|cluster| place(cluster).is_some()).await;
        let Some(from) = place(cluster) else { continue };
        let began = clock.monotonic();
        let why = match session(cluster, &asked, from, &mut registered).await {
            Ok(ended) => ended,
            Err(error) => error,
        };
        if why != said {
            cluster.say(format!("cluster agent: {why}"));
            said = why;
        }
        tokio::time::sleep(backoff.next(clock.monotonic().since(began), &mut chance)).await;
    }
}

/// A node for the agent's pod: the first that is alive.
fn place(cluster: &Cluster) -> Option<Ipv4Addr> {
    cluster.kubelets().values().next().map(|kubelet| kubelet.address)
}

/// One session from its first byte to its end; gives why it ended.
async fn session(
    cluster: &Arc<Cluster>,
    asked: &Asked,
    from: Ipv4Addr,
    registered: &mut bool,
) -> Result<String, String> {
    let server: Uri = asked.server.parse().map_err(|_| format!("{:?} is no URL", asked.server))?;
    let base = &cluster.base;
    let way = upstream::verified(&base.network, &base.trusts, from, &server, &asked.ca_checksum).await;
    let way: Upstream = way.map_err(|error| match error {
        Unverified::NoAnswer(why) | Unverified::Wrong(why) => why,
    })?;
    let offer = offer(cluster, asked).await?;
    let dial = ToApi { cluster: cluster.clone(), network: base.network.clone(), from };
    let entropy = Box::new(base.chance.of(&format!("{} session", cluster.id)));
    let connected = || cluster.say("cluster agent is connected");
    line::hold(way, offer, dial, base.clock.clone(), entropy, registered, connected).await
}

/// The registration token of the credentials, and how the API is reached and spoken to.
async fn offer(cluster: &Cluster, asked: &Asked) -> Result<Offer, String> {
    let client = cluster.client("system:kubelet");
    let failed = |error: kube::Error| agent::chain(&error);
    let secrets: Api<Secret> = Api::namespaced(client.clone(), namespaces::CATTLE_SYSTEM);
    let secret = secrets.get(&asked.credentials).await.map_err(failed)?;
    let token = secret.data.unwrap_or_default().remove("token").ok_or("the credentials have no token")?;
    let accounts: Api<ServiceAccount> = Api::namespaced(client, namespaces::CATTLE_SYSTEM);
    let spec = TokenRequestSpec { expiration_seconds: Some(LIFETIME), ..TokenRequestSpec::default() };
    let request = TokenRequest { spec: Some(spec), ..TokenRequest::default() };
    let answer = accounts.create_token_request(&asked.account, &PostParams::default(), &request).await;
    let status = answer.map_err(failed)?.status;
    Ok(Offer {
        server: asked.server.clone(),
        token: token.0,
        address: format!("{SERVICE}:443"),
        account: status.and_then(|status| status.token).unwrap_or_default(),
        authority: cluster.pki.ca_certificate().to_owned(),
    })
}

/// The Service `kubernetes`, as a pod on one host reaches it.
struct ToApi {
    cluster: Arc<Cluster>,
    network: Network,
    from: Ipv4Addr,
}

impl Dial for ToApi {
    fn dial(&self, _: Target) -> Later<'static, io::Result<Box<dyn Io>>> {
        let refused = || io::Error::new(io::ErrorKind::ConnectionRefused, "no API server answers");
        let wire = self.cluster.endpoint(Some(self.from)).ok_or_else(refused);
        let wire = wire.and_then(|place| self.network.connect(self.from, place));
        Box::pin(std::future::ready(wire.map(|wire| Box::new(wire) as Box<dyn Io>)))
    }
}
