//! The lifetimes of the tokens that servers introduce themselves with.

use std::sync::Arc;

use ::provisioning::bootstrap::token::{Lifetimes, Worth, worth};
use api::GoDuration;
use api::catalogue::{annotations, settings};
use jiff::{SignedDuration, Timestamp};
use kit::runner::Controller;
use kit::{Ended, Key, Turn};
use serde_json::json;

use super::context::Context;
use crate::error::Error;
use crate::until;

/// Looks after the token Secrets of bootstrap accounts.
pub(super) struct Tokens(pub(super) Arc<Context>);

impl Controller for Tokens {
    type Error = Error;

    fn name(&self) -> &'static str {
        "bootstrap token"
    }

    async fn reconcile(&self, key: &Key, turn: &Turn) -> Result<Ended, Error> {
        let context = &self.0;
        let Some(secret) = context.secrets.get(key) else { return Ok(Ended::Gone) };
        let marked = |mark| secret.annotation(mark) == Some("true");
        if !marked(annotations::BOOTSTRAP_TOKEN) || marked(annotations::BOOTSTRAP_TOKEN_INVALIDATED) {
            return Ok(Ended::Well);
        }
        let now = context.now();
        let created = secret.meta().creation_timestamp.as_ref().map_or(now, |time| time.0);
        let accessed = secret.annotation(annotations::LAST_ACCESS_TIMESTAMP);
        let accessed = accessed.and_then(|time| time.parse::<Timestamp>().ok());
        match worth(self.lifetimes(), created, accessed, now) {
            Worth::Unlimited => Ok(Ended::Well),
            Worth::Until(end) => Ok(until(now, Some(end))),
            Worth::Ended => {
                let mark = json!({annotations::BOOTSTRAP_TOKEN_INVALIDATED: "true"});
                let patch = json!({"metadata": {"annotations": mark}});
                context.objects.writer().patch(turn, &context.secrets, key, patch).await?;
                Ok(Ended::Well)
            }
        }
    }
}

impl Tokens {
    fn lifetimes(&self) -> Lifetimes {
        let (usual, found) = (Lifetimes::default(), &self.0.settings);
        let duration = |name| {
            let found = found.parsed::<GoDuration>(name).map(|one| one.seconds());
            found.filter(|seconds| *seconds > 0).map(SignedDuration::from_secs)
        };
        Lifetimes {
            enabled: found.text(settings::SYSTEM_AGENT_INSTALLER_TOKEN_TTL_ENABLED) != "false",
            unused: duration(settings::SYSTEM_AGENT_INSTALLER_TOKEN_LONG_TTL).unwrap_or(usual.unused),
            used: duration(settings::SYSTEM_AGENT_INSTALLER_TOKEN_SHORT_TTL).unwrap_or(usual.used),
        }
    }
}
