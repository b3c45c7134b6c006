//! Webhooks that may change an object: one after the other.

use kubeapi::admission::annotations::{self, Turn};
use kubeapi::audit::Level;
use kubeapi::{Status, patch};
use serde_json::Value;

use super::asking::{Asking, Seen};
use super::configured::Webhook;
use super::reinvocation::Reinvocation;
use crate::server::reread;

impl Asking<'_> {
    /// Asks one round of webhooks about a write, and lets them change the object. A deletion has none.
    ///
    /// # Errors
    /// If one of them refuses, or cannot be asked and has to be.
    pub(crate) async fn mutate(
        &self,
        mut object: Option<&mut Value>,
        rounds: &mut Reinvocation,
    ) -> Result<(), Status> {
        if self.is_exempt() {
            return Ok(());
        }
        rounds.begin(object.as_deref());
        for (index, webhook) in self.hooks.mutating.iter().enumerate() {
            let seen = self.for_webhook(webhook, object.as_deref()).await?;
            let Some(seen) = seen.filter(|_| rounds.wants(webhook)) else { continue };
            let turn = Turn { round: rounds.number(), index };
            let changed = self.change(webhook, &seen, turn, object.as_deref_mut()).await;
            let noted =
                annotations::mutation(&webhook.configuration, &webhook.name, matches!(changed, Ok(true)));
            self.notes.add(Level::Metadata, turn.mutation(), noted);
            rounds.asked(webhook, changed?);
        }
        rounds.end(object.as_deref());
        Ok(())
    }

    /// Lets a webhook change the object. Gives whether it did.
    async fn change(
        &self,
        webhook: &Webhook,
        seen: &Seen,
        turn: Turn,
        object: Option<&mut Value>,
    ) -> Result<bool, Status> {
        let old = match self.about.old {
            Some(old) => Some(self.shown(seen, old).await?),
            None => None,
        };
        let Some(object) = object else {
            let answer = self.ask(webhook, seen, None, old.as_deref(), (turn, true)).await?;
            return match answer.and_then(|answer| answer.patch) {
                None => Ok(false),
                Some(_) => Err(Status::internal(format!(
                    "admission webhook {:?} attempted to modify the object, which is not supported for this operation",
                    webhook.name
                ))),
            };
        };
        let shown = self.shown(seen, object).await?;
        let answer = self.ask(webhook, seen, Some(&shown), old.as_deref(), (turn, true)).await?;
        let Some(patch) = answer.and_then(|answer| answer.patch) else { return Ok(false) };
        let mut patched = patch::json::apply(&shown, &patch).map_err(Status::internal)?;
        for field in ["apiVersion", "kind"] {
            // What it is cannot be changed.
            patched[field] = shown[field].clone();
        }
        reread(&seen.resource, &seen.kind, &mut patched).map_err(Status::internal)?;
        let noted = annotations::patch(&webhook.configuration, &webhook.name, &patch);
        self.notes.add(Level::Request, turn.patch(), noted);
        if patched == *shown {
            return Ok(false);
        }
        let own = self.about.kind.group_version();
        *object = match seen.kind.group_version() == own {
            true => patched,
            false => self.converted(patched, &own).await?,
        };
        Ok(true)
    }
}
