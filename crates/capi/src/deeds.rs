//! What sets and deployments did, or could not do, told as events under the names that upstream's have.

use kit::events::Severity;
use kit::write::Error;
use kit::{KindId, Object};

use crate::context::Context;

/// Something that is done to another object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Deed {
    Create,
    Adopt,
    Scale,
    Update,
    Delete,
}

impl Deed {
    /// The event's reason; none if it is not worth one.
    fn reason(self, well: bool) -> Option<&'static str> {
        Some(match (self, well) {
            (Deed::Create, true) => "SuccessfulCreate",
            (Deed::Create, false) => "FailedCreate",
            (Deed::Adopt, true) => "SuccessfulAdopt",
            (Deed::Adopt, false) => "FailedAdopt",
            (Deed::Scale, true) => "SuccessfulScale",
            (Deed::Scale, false) => "FailedScale",
            (Deed::Update, true) => return None,
            (Deed::Update, false) => "FailedUpdate",
            (Deed::Delete, true) => "SuccessfulDelete",
            (Deed::Delete, false) => "FailedDelete",
        })
    }

    fn words(self) -> (&'static str, &'static str) {
        match self {
            Deed::Create => ("Created", "create"),
            Deed::Adopt => ("Adopted", "adopt"),
            Deed::Scale => ("Scaled", "scale"),
            Deed::Update => ("Updated", "update"),
            Deed::Delete => ("Deleted", "delete"),
        }
    }

    /// Reason, severity and message of the event that tells how it went. That somebody else wrote at the same time is no
    /// failure: it is tried again at once.
    fn event(self, what: &str, failure: Option<&Error>) -> Option<(&'static str, Severity, String)> {
        let (done, to_do) = self.words();
        match failure {
            None => self.reason(true).map(|reason| (reason, Severity::Normal, format!("{done} {what}"))),
            Some(error) if error.code() == Some(409) => None,
            Some(error) => self.reason(false).map(|reason| {
                (reason, Severity::Warning, format!("Failed to {to_do} {what}: {}", error.words()))
            }),
        }
    }
}

impl Context {
    /// Tells how a deed of an object went, and gives it back.
    pub(crate) async fn told<T>(
        &self,
        kind: &KindId,
        object: &Object,
        deed: Deed,
        what: &str,
        outcome: Result<T, Error>,
    ) -> Result<T, Error> {
        if let Some((reason, severity, message)) = deed.event(what, outcome.as_ref().err()) {
            self.events.tell(kind, object, severity, reason, &message).await;
        }
        outcome
    }
}

#[cfg(test)]
mod tests {
    use kit::Key;
    use kube::core::Status;

    use super::*;

    #[test]
    fn failures_are_told_in_the_servers_words() {
        let refused = |code: u16| Error::Refused {
            what: "create",
            kind: "Machine".into(),
            key: Key::new("n", "m"),
            answer: Box::new(kube::Error::Api(Box::new(Status {
                code,
                ..Status::failure("no room", "Forbidden")
            }))),
        };
        let told = |deed: Deed, failure: Option<&Error>| {
            deed.event("machine m", failure).map(|(reason, _, message)| (reason, message))
        };
        assert_eq!(told(Deed::Create, None), Some(("SuccessfulCreate", "Created machine m".into())));
        assert_eq!(told(Deed::Update, None), None);
        let expected = ("FailedDelete", "Failed to delete machine m: no room".into());
        assert_eq!(told(Deed::Delete, Some(&refused(403))), Some(expected));
        assert_eq!(told(Deed::Adopt, Some(&refused(409))), None, "it is tried again");
    }
}
