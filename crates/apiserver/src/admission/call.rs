//! Asking a webhook.

use kubeapi::admission::annotations::Turn;
use kubeapi::admission::{self, Answer, FailurePolicy, ReviewVersion};
use kubeapi::audit::Level;
use kubeapi::{Status, meta};
use serde_json::Value;

use super::asking::{Asking, Seen};
use super::configured::Webhook;
use crate::webhook;

/// Why a webhook gave no answer.
#[derive(Debug, thiserror::Error)]
enum Error {
    #[error(
        "could not create admission objects: webhook does not accept known AdmissionReview versions (v1, v1beta1)"
    )]
    NoVersion,
    #[error("could not get REST client: {0}")]
    Configuration(webhook::Error),
    #[error("failed to call webhook: {0}")]
    Call(webhook::Error),
    #[error("{0}")]
    Answer(String),
}

impl From<webhook::Error> for Error {
    fn from(error: webhook::Error) -> Self {
        match error {
            webhook::Error::NoEndpoint | webhook::Error::Url(_) | webhook::Error::Roots(_) => {
                Error::Configuration(error)
            }
            other => Error::Call(other),
        }
    }
}

impl Asking<'_> {
    /// What a webhook says that agrees to a write; `None` if it cannot be asked and need not be. Its warnings and
    /// annotations are noted. The objects are as the webhook sees them.
    ///
    /// # Errors
    /// What a client is told whose write is refused.
    pub(super) async fn ask(
        &self,
        webhook: &Webhook,
        seen: &Seen,
        object: Option<&Value>,
        old: Option<&Value>,
        (turn, mutating): (Turn, bool),
    ) -> Result<Option<Answer>, Status> {
        let name = &webhook.name;
        if self.about.dry_run && !webhook.dry_runs {
            let why = format!("admission webhook {name:?} does not support dry run");
            return Err(Status::bad_request(why));
        }
        let answer = match self.exchange(webhook, seen, object, old, mutating).await {
            Ok(answer) => answer,
            Err(error) if webhook.failure == FailurePolicy::Ignore => {
                tracing::warn!(webhook = name, %error, "a webhook failed, and the write goes on");
                self.notes.add(Level::Metadata, turn.failed_open(mutating), name.clone());
                return Ok(None);
            }
            Err(error) => return Err(Status::internal(format!("failed calling webhook {name:?}: {error}"))),
        };
        self.warnings.add(answer.warnings.clone());
        for (key, value) in &answer.audit_annotations {
            self.notes.add(Level::Metadata, format!("{name}/{key}"), value.clone());
        }
        match answer.allowed {
            true => Ok(Some(answer)),
            false => Err(admission::denied(name, &answer.result)),
        }
    }

    async fn exchange(
        &self,
        webhook: &Webhook,
        seen: &Seen,
        object: Option<&Value>,
        old: Option<&Value>,
        mutating: bool,
    ) -> Result<Answer, Error> {
        let version = ReviewVersion::choose(&webhook.review_versions).ok_or(Error::NoVersion)?;
        let uid = self.conversion.draw(meta::new_uid);
        let review = self.question(seen).review(version, &uid, object, old);
        let answer = self.conversion.caller().call(&webhook.client, &review, webhook.timeout).await?;
        admission::read(&answer, version, &uid, mutating).map_err(Error::Answer)
    }
}
