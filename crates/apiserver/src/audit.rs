//! The audit log: who asked for what, and how it ended. One JSON line for each stage of a request, in upstream's shape.
//!
//! What is told is for the [`Policy`] to say. Credentials are never told: no headers at all, and of requests for tokens
//! and reviews of them no bodies, whatever the policy says.

mod event;
mod output;
mod queue;
mod source;

use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use ::http::request::Parts;
use clock::Clock;
use jiff::Timestamp;
use kubeapi::Status;
use kubeapi::audit::{Auditing, Level, Policy, Stage, without_managed_fields};
use kubeapi::authn::User;
use kubeapi::request::Target;
use serde_json::Value;

use crate::server::Notes;
use event::{Event, ObjectReference, ResponseStatus, UserInfo};
pub use output::Rotation;
use queue::Queue;
pub use source::Peer;

/// Where the log goes.
#[derive(Clone, Debug)]
pub enum Output {
    /// Standard output.
    Stdout,
    /// A file, and when the next one is begun.
    File(PathBuf, Rotation),
}

/// The log of a server.
pub struct Audit {
    policy: Policy,
    clock: Arc<dyn Clock>,
    queue: Queue,
}

impl fmt::Debug for Audit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Audit").field("policy", &self.policy).finish_non_exhaustive()
    }
}

impl Audit {
    /// Begins to write a log. Requests never wait for it: what cannot be written in time is dropped and counted.
    ///
    /// # Errors
    /// If the file cannot be opened.
    pub fn start(policy: Policy, output: &Output, clock: Arc<dyn Clock>) -> std::io::Result<Self> {
        Ok(Audit { policy, clock, queue: Queue::start(output)? })
    }

    /// How many events have been dropped since the start.
    pub fn dropped(&self) -> u64 {
        self.queue.dropped()
    }

    /// Begins the record of a request by whoever has been found out to ask; nobody if that failed. None if the policy
    /// is not interested.
    pub(crate) fn begin(
        self: &Arc<Self>,
        parts: &Parts,
        id: &str,
        user: Option<&User>,
        target: &Target,
    ) -> Option<Record> {
        let mut auditing = self.policy.decide(user, target);
        if auditing.level == Level::None {
            return None;
        }
        if is_about_tokens(target) {
            auditing.level = Level::Metadata;
        }
        let mut event = Event::new(parts, id, auditing.level, verb(target), self.clock.now());
        event.object_ref = ObjectReference::of(target);
        event.user = user.map(UserInfo::from).unwrap_or_default();
        let record = Record(Arc::new(Inner {
            audit: self.clone(),
            auditing,
            event: Mutex::new(event),
            panicked: false.into(),
            notes: Notes::default(),
        }));
        Some(record)
    }
}

fn verb(target: &Target) -> &str {
    match target {
        Target::Path { verb, .. } => verb,
        Target::Resource(request) => request.verb.as_str(),
    }
}

/// Bodies with tokens in them, in what is sent or in what is answered.
fn is_about_tokens(target: &Target) -> bool {
    let Target::Resource(request) = target else { return false };
    let place = (&*request.group_version.group, &*request.resource, &*request.subresource);
    matches!(place, ("", "serviceaccounts", "token") | ("authentication.k8s.io", "tokenreviews", _))
}

/// What is known of one request. Clones are the same record.
#[derive(Clone)]
pub(crate) struct Record(Arc<Inner>);

struct Inner {
    audit: Arc<Audit>,
    auditing: Auditing,
    event: Mutex<Event>,
    panicked: AtomicBool,
    notes: Notes,
}

impl Record {
    fn change(&self, change: impl FnOnce(&mut Event)) {
        change(&mut self.0.event.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// The request has come in.
    pub(crate) fn received(&self) {
        let time = |event: &Event| event.request_received_timestamp;
        self.tell(Stage::RequestReceived, time);
    }

    /// As whom the user acts, if as somebody else.
    pub(crate) fn acts_as(&self, user: Option<&User>) {
        self.change(|event| event.impersonated_user = user.map(UserInfo::from));
    }

    /// What came out of the question whether the user may do this.
    pub(crate) fn authorized(&self, allowed: bool, reason: &str) {
        let decision = if allowed { "allow" } else { "forbid" };
        self.change(|event| {
            event.annotations.insert("authorization.k8s.io/decision".into(), decision.into());
            event.annotations.insert("authorization.k8s.io/reason".into(), reason.into());
        });
    }

    /// Where those who are asked about the request note what they have to say.
    pub(crate) fn notes(&self) -> Notes {
        self.0.notes.clone()
    }

    /// The object, patch or options that were sent.
    pub(crate) fn sent(&self, body: &Value, is_object: bool) {
        let object = (self.0.auditing.level >= Level::Request).then(|| self.shown(body));
        self.change(|event| {
            event.request_object = object;
            if let (true, Some(reference)) = (is_object, &mut event.object_ref) {
                reference.complete(body);
            }
        });
    }

    /// Whether it shows what is answered.
    pub(crate) fn shows_answer(&self) -> bool {
        self.0.auditing.level == Level::RequestResponse
    }

    /// The object that is answered.
    pub(crate) fn answered(&self, body: &Value) {
        if self.shows_answer() {
            let object = self.shown(body);
            self.change(|event| event.response_object = Some(object));
        }
    }

    /// The request made the server panic.
    pub(crate) fn panicked(&self) {
        self.0.panicked.store(true, Ordering::Relaxed);
    }

    /// Why the request was refused.
    pub(crate) fn failed(&self, status: &Status) {
        let shown = serde_json::to_value(status).unwrap_or_default();
        self.answered(&shown);
        self.change(|event| event.response_status = Some(ResponseStatus::of(status)));
    }

    /// Somebody was turned away at the door. As upstream, this is the one stage that is told of that.
    pub(crate) fn not_authenticated(&self, status: &Status) {
        self.failed(status);
        self.tell(Stage::ResponseStarted, |_| self.now());
    }

    /// The code of the answer.
    pub(crate) fn code(&self, code: u16) {
        self.change(|event| event.response_status.get_or_insert_default().code = code.into());
    }

    fn shown(&self, object: &Value) -> Value {
        let mut object = object.clone();
        if self.0.auditing.omit_managed_fields {
            without_managed_fields(&mut object);
        }
        object
    }

    fn now(&self) -> Timestamp {
        self.0.audit.clock.now()
    }

    fn tell(&self, stage: Stage, time: impl FnOnce(&Event) -> Timestamp) {
        if !self.0.auditing.tells(stage) {
            return;
        }
        let mut line = Vec::new();
        self.change(|event| {
            event.stage_timestamp = time(event);
            event.annotations.extend(self.0.notes.at(self.0.auditing.level));
            line = event.line(stage);
        });
        self.0.audit.queue.push(line);
    }

    /// The rest of the record: it is told when this goes, however the request ends.
    pub(crate) fn ending(self) -> Ending {
        Ending(self)
    }
}

/// Tells the last stage of a request when it goes.
pub(crate) struct Ending(Record);

impl fmt::Debug for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Ending")
    }
}

impl Ending {
    /// A watch has begun: it ends with its stream.
    pub(crate) fn started(self) -> Self {
        self.0.tell(Stage::ResponseStarted, |_| self.0.now());
        self
    }
}

impl Drop for Ending {
    fn drop(&mut self) {
        let record = &self.0;
        if record.0.panicked.load(Ordering::Relaxed) {
            record.change(|event| event.response_status = Some(ResponseStatus::panicked()));
            return record.tell(Stage::Panic, |_| record.now());
        }
        // The client went away before there was an answer.
        record.change(|event| {
            event.response_status.get_or_insert_with(ResponseStatus::closed_early);
        });
        record.tell(Stage::ResponseComplete, |_| record.now());
    }
}
