//! Which webhooks are asked a second time.

use std::collections::BTreeSet;

use serde_json::Value;

use super::configured::Webhook;

/// A webhook by its configuration and its place there.
type Id = (String, usize);

/// The rounds in which those are asked who may change an object. There is a second one if a webhook changed something
/// in the first: whoever changes objects in process is asked again in it, and of the webhooks those that want to be
/// and were asked before the change.
#[derive(Debug, Default)]
pub(crate) struct Reinvocation {
    second: bool,
    changed: bool,
    /// Those that were asked since the last change, and would be asked again after the next.
    asked: BTreeSet<Id>,
    again: BTreeSet<Id>,
    /// What the webhooks made of the object.
    last: Option<Value>,
}

fn id(webhook: &Webhook) -> Id {
    (webhook.configuration.clone(), webhook.index)
}

impl Reinvocation {
    /// To be called before the webhooks of a round are asked.
    pub(super) fn begin(&mut self, object: Option<&Value>) {
        // Whoever is in process has changed something since.
        if self.second && self.last.as_ref() != object {
            self.again.append(&mut self.asked);
        }
    }

    /// Which round it is, from 0.
    pub(super) fn number(&self) -> usize {
        self.second.into()
    }

    /// Whether a webhook is asked in this round, if it is one for this write.
    pub(super) fn wants(&self, webhook: &Webhook) -> bool {
        !self.second || self.again.contains(&id(webhook))
    }

    /// To be called after a webhook was asked.
    pub(super) fn asked(&mut self, webhook: &Webhook, changed: bool) {
        if changed {
            self.changed = true;
            self.again.append(&mut self.asked);
        }
        if webhook.reinvoked {
            self.asked.insert(id(webhook));
        }
    }

    /// To be called after the webhooks of a round were asked.
    pub(super) fn end(&mut self, object: Option<&Value>) {
        self.last = object.cloned();
    }

    /// Whether there is another round.
    pub(crate) fn goes_on(&mut self) -> bool {
        !std::mem::replace(&mut self.second, true) && self.changed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The webhooks that are asked in two rounds; each says whether it wants to be asked again, and whether it changes
    /// the object in the first round. Between them the object is changed if `inside`.
    fn second_round(webhooks: &[(bool, bool)], inside: bool) -> Option<Vec<usize>> {
        let webhooks: Vec<(Webhook, bool)> = webhooks
            .iter()
            .enumerate()
            .map(|(index, (reinvoked, changes))| (Webhook::named(index, *reinvoked), *changes))
            .collect();
        let (before, after) = (Value::from(1), Value::from(2));
        let mut rounds = Reinvocation::default();
        rounds.begin(Some(&before));
        for (webhook, changes) in &webhooks {
            assert!(rounds.wants(webhook));
            rounds.asked(webhook, *changes);
        }
        rounds.end(Some(&before));
        if !rounds.goes_on() {
            return None;
        }
        rounds.begin(Some(if inside { &after } else { &before }));
        let wanted = webhooks.iter().filter(|(webhook, _)| rounds.wants(webhook));
        let wanted = wanted.map(|(webhook, _)| webhook.index).collect();
        assert!(!rounds.goes_on(), "there is no third round");
        Some(wanted)
    }

    #[test]
    fn who_is_asked_again() {
        let (never, wants, changes, both) = ((false, false), (true, false), (false, true), (true, true));
        for (webhooks, inside, wanted) in [
            (vec![never, wants], false, None),
            (vec![wants, changes], false, Some(vec![0])),
            (vec![changes, wants], false, Some(vec![])),
            (vec![wants, changes, wants], false, Some(vec![0])),
            (vec![both, never], false, Some(vec![])),
            (vec![both, both], false, Some(vec![0])),
            // What is changed inside concerns all that were asked.
            (vec![changes, wants, never], true, Some(vec![1])),
            (vec![both, both], true, Some(vec![0, 1])),
        ] {
            assert_eq!(second_round(&webhooks, inside), wanted, "{webhooks:?} {inside}");
        }
    }
}
