//! Registration tokens: their values in Secrets, and the commands that carry them.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::catalogue::settings;
use api::management::v3::{ClusterRegistrationToken, ClusterRegistrationTokenStatus};
use api::names;
use api::provisioning::v1::Cluster;
use k8s_openapi::api::core::v1::Secret;
use kit::events::Severity;
use kit::runner::Controller;
use kit::{Ended, Key, Object, Turn};
use provisioning::custom::Host;
use provisioning::custom::registration_token::{self, Facts};
use serde_json::{Value, json};

use super::context::Context;
use crate::error::Error;
use crate::until;

/// How long the token before stays good if nobody says otherwise, in minutes.
const GRACE: i64 = 60;

/// Looks after ClusterRegistrationTokens.
pub(super) struct Tokens(pub(super) Arc<Context>);

impl Controller for Tokens {
    type Error = Error;

    fn name(&self) -> &'static str {
        "registration token"
    }

    async fn reconcile(&self, key: &Key, turn: &Turn) -> Result<Ended, Error> {
        let context = &self.0;
        let Some(object) = context.known.tokens.get(key).filter(|object| !object.deleting()) else {
            return Ok(Ended::Gone);
        };
        let token: Arc<ClusterRegistrationToken> = object.view()?;
        // A token is for the cluster whose namespace it is in: nobody gets another's by naming it.
        if token.spec.cluster_name != key.namespace {
            let why = format!(
                "spec.clusterName is {:?}: it must be {:?}, the namespace of the token",
                token.spec.cluster_name, key.namespace
            );
            let kind = context.known.tokens.kind();
            context.events.tell(kind, &object, Severity::Warning, "WrongCluster", &why).await;
            return Ok(Ended::Well);
        }
        let place = Key::new(&key.namespace, &registration_token::secret_name(&key.name));
        let secret = context.known.secrets.get(&place);
        let data = secret.as_ref().map(|secret| data(secret)).transpose()?;
        let server = context.parts.server.borrow().clone();
        let environment = self.environment(&token.spec.cluster_name);
        let fresh = context.with_entropy(|entropy| names::token(entropy));
        let decision = registration_token::decide(&Facts {
            token: &token,
            data: data.as_ref(),
            fresh: &fresh,
            lifetime: context.settings.parsed(settings::CRT_DEFAULT_TTL_MINUTES).unwrap_or(0),
            grace: context.settings.parsed(settings::CRT_DEFAULT_GRACE_PERIOD_MINUTES).unwrap_or(GRACE),
            host: Host {
                url: &server.url,
                ca_checksum: &crate::checksum(&server.ca_certificates),
                environment: &environment,
            },
            now: context.now(),
        });
        match &secret {
            None => {
                let objects = &context.objects;
                let document = decision.secret.document().clone();
                match objects.writer().create(turn, &context.known.secrets, document).await {
                    Err(error) if error.namespace_goes() => return Ok(Ended::Gone),
                    made => made.map(drop)?,
                }
            }
            Some(found) => self.keep(turn, found, &decision.secret).await?,
        }
        self.say(turn, &object, &decision.status).await?;
        Ok(until(context.now(), decision.wake_at))
    }
}

impl Tokens {
    /// The variables that commands set: those of the cluster that the management cluster was made for.
    fn environment(&self, management: &str) -> Vec<api::rke::v1::EnvVar> {
        let known = &self.0.known;
        let cluster = kit::lineage::cluster(&known.management, &known.clusters, management);
        let cluster = cluster.and_then(|object| object.view::<Cluster>().ok());
        cluster.map(|cluster| cluster.spec.agent_env_vars.clone()).unwrap_or_default()
    }

    /// Writes the Secret's data, if they are others.
    async fn keep(&self, turn: &Turn, found: &Object, wanted: &provisioning::Object) -> Result<(), Error> {
        let (is, should) = (&found.document()["data"], &wanted.document()["data"]);
        let Some(patch) = api::overlay::merge_patch(is, should) else { return Ok(()) };
        let version = &found.meta().resource_version;
        let patch = json!({"metadata": {"resourceVersion": version}, "data": patch});
        let secrets = &self.0.known.secrets;
        Ok(self.0.objects.writer().patch(turn, secrets, &found.key(), patch).await?)
    }

    /// Writes the status: this kind has it with the rest.
    async fn say(
        &self,
        turn: &Turn,
        object: &Object,
        status: &ClusterRegistrationTokenStatus,
    ) -> Result<(), Error> {
        let shape = |problem| Error::Shape { what: format!("{object:?}"), problem };
        let wanted = serde_json::to_value(status).map_err(shape)?;
        let found = match &object.document()["status"] {
            Value::Null => json!({}),
            found => found.clone(),
        };
        let Some(patch) = api::overlay::merge_patch(&found, &wanted) else { return Ok(()) };
        let tokens = &self.0.known.tokens;
        Ok(self.0.objects.writer().patch(turn, tokens, &object.key(), json!({"status": patch})).await?)
    }
}

fn data(secret: &Object) -> Result<BTreeMap<String, Vec<u8>>, Error> {
    let secret: Arc<Secret> = secret.view()?;
    let data = secret.data.clone().unwrap_or_default();
    Ok(data.into_iter().map(|(key, value)| (key, value.0)).collect())
}
