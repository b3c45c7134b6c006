//! Webhooks that may refuse a write: all at once.

use futures_util::future::join_all;
use kubeapi::Status;
use kubeapi::admission::annotations::Turn;
use serde_json::Value;

use super::asking::Asking;

impl Asking<'_> {
    /// Asks policies, then webhooks whether a write may be. A deletion has no object.
    ///
    /// # Errors
    /// If one of them refuses, or cannot be asked and has to be.
    pub(crate) async fn validate(&self, object: Option<&Value>) -> Result<(), Status> {
        self.ask_policies(object).await?;
        if self.is_exempt() {
            return Ok(());
        }
        let mut calls = Vec::new();
        for webhook in &self.hooks.validating {
            let Some(seen) = self.for_webhook(webhook, object).await? else { continue };
            let (new, old) = self.objects(&seen, object).await?;
            // Upstream counts those that are asked.
            let turn = Turn { round: 0, index: calls.len() };
            calls.push(async move {
                let (new, old) = (Some(&new).filter(|_| object.is_some()), Some(&old));
                let old = old.filter(|_| self.about.old.is_some());
                self.ask(webhook, &seen, new, old, (turn, false)).await
            });
        }
        // All are asked, also if one refuses; the first in their order is heard.
        join_all(calls).await.into_iter().try_for_each(|answer| answer.map(drop))
    }
}
