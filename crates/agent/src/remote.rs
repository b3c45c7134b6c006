//! The loop around [`plan::agent::decide`]: the Secret changes or time passes, one step is decided and done, again.

use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use jiff::Timestamp;
use plan::agent::{Chores, Job, Local, Outcome, Seen, Source, Step, Tended, Why, Write, decide};
use plan::authority::{TRUSTED, WANTED};
use plan::binary;
use plan::secret::{AGENT_EXPECTED_ANNOTATION as EXPECTED, Changes, MOVED_TO_ANNOTATION as MOVED_TO};
use serde_json::Value;
use tokio::sync::watch as channel;

use crate::apply::Applier;
use crate::authority::Authority;
use crate::client::{self, Client};
use crate::journal::Journal;
use crate::machine::Later;
use crate::moved::Notice;
use crate::object::{self, Object};
use crate::probes;
use crate::retry::Retry;
use crate::update::Followed;
use crate::watch::{self, News, Place};

/// The longest sleep while something is due later: the clock may be set meanwhile.
const NAP: Duration = Duration::from_secs(60);
/// How often the way to a server that has moved is tried.
const TRY_AGAIN: Duration = Duration::from_secs(10);

/// Why a request to the API did not do.
#[derive(Debug, thiserror::Error)]
enum Error {
    #[error(transparent)]
    Client(#[from] client::Error),
    #[error(transparent)]
    Object(#[from] object::Error),
}

/// Is told how the loop does.
pub trait Observer: Send + Sync {
    /// The server has answered, with the Secret or that there is none.
    fn connected(&self) -> Later<'_, ()> {
        Box::pin(std::future::ready(()))
    }

    /// There is nothing to do, and all that was done is reported. True ends the loop.
    fn at_rest(&self) -> Later<'_, bool> {
        Box::pin(std::future::ready(false))
    }

    /// There is nothing to do, and this is the binary that the server would have run ([`plan::binary::WANTED`]), if it says.
    /// Gives what is to be said of binaries.
    fn binary<'a>(&'a self, _client: &'a Client, _wanted: &'a str) -> Later<'a, Followed> {
        Box::pin(std::future::ready(Followed::default()))
    }

    /// The server says where it is from now on, again and again while there is nothing to do. True ends the loop: there
    /// is a way there.
    fn moved<'a>(&'a self, _notice: &'a Notice) -> Later<'a, bool> {
        Box::pin(std::future::ready(false))
    }
}

/// Nobody wants to know.
#[derive(Clone, Copy, Debug)]
pub struct Unobserved;
impl Observer for Unobserved {}

/// The plan in one Secret, and the machine that it is for.
pub struct Remote {
    /// The API.
    pub client: Client,
    /// The Secret.
    pub place: Place,
    /// Does what plans say.
    pub applier: Arc<Applier>,
    /// Keeps results.
    pub journal: Journal,
    /// Is told how it goes.
    pub observer: Arc<dyn Observer>,
    /// Whom the client trusts; none if that never changes.
    pub authority: Option<Authority>,
}

impl std::fmt::Debug for Remote {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Remote").field("place", &self.place).finish_non_exhaustive()
    }
}

impl Remote {
    /// Follows the Secret until the observer ends it. Dropping this at any time is what a crash is: all is well
    /// after the next start.
    pub async fn run(self) {
        let (sender, news) = channel::channel(News::Nothing);
        let Remote { client, place, applier, journal, observer, authority } = self;
        let machine = applier.machine().clone();
        let local = Local::resume(journal.report().cloned());
        let mut work = Work {
            client: &client,
            place: &place,
            applier: &applier,
            journal,
            observer: observer.as_ref(),
            news,
            local,
            known: None,
            retry: Retry::default(),
            said: None,
            authority,
        };
        tokio::select! {
            biased;
            () = watch::follow(&client, &place, &machine, &sender) => {}
            () = work.run() => {}
        }
    }
}

struct Work<'a> {
    client: &'a Client,
    place: &'a Place,
    applier: &'a Applier,
    journal: Journal,
    observer: &'a dyn Observer,
    news: channel::Receiver<News>,
    local: Local,
    /// The Secret as last heard or read, and how it reads.
    known: Option<(Object, Seen)>,
    retry: Retry,
    said: Option<(String, Why)>,
    authority: Option<Authority>,
}

impl Work<'_> {
    async fn run(&mut self) {
        loop {
            self.hear().await;
            let Some((_, seen)) = &self.known else {
                // Whatever is remembered is kept.
                self.nap(None).await;
                continue;
            };
            let (step, local) = decide(seen, &self.local, self.now());
            let saved = self.remember(local);
            match step {
                Step::Reread => self.reread().await,
                Step::Write(write, changes) => self.write(&write, &changes).await,
                Step::Apply(job) => self.apply(&job, saved).await,
                Step::Tend(chores) => self.tend(&chores).await,
                Step::Wait { until, why } => {
                    self.say(why);
                    if self.arrived().await {
                        continue;
                    }
                    let Some(later) = self.follow_authority().await else { continue };
                    let Some(again) = self.follow_binary().await else { continue };
                    let until = until.into_iter().chain(later).chain(again).min();
                    let notice = self.notice();
                    let leaves = match &notice {
                        Some(notice) => self.observer.moved(notice).await,
                        None => false,
                    };
                    if leaves || self.observer.at_rest().await {
                        return;
                    }
                    match notice {
                        Some(_) => self.rest(Some(TRY_AGAIN)).await,
                        None => self.nap(until).await,
                    }
                }
            }
        }
    }

    /// Where the server is, if it has moved.
    fn notice(&self) -> Option<Notice> {
        self.known.as_ref().and_then(|(object, _)| Notice::read(object.annotation(MOVED_TO)?))
    }

    /// Tells a server that everything was moved to that we are there. Says whether it was told.
    async fn arrived(&mut self) -> bool {
        let Some((object, _)) =
            self.known.as_ref().filter(|(object, _)| object.annotation(EXPECTED).is_some())
        else {
            return false;
        };
        let document = object.without(EXPECTED);
        self.send(&document).await;
        true
    }

    /// Sends the Secret with other annotations; afterwards it is to be looked at again.
    async fn send(&mut self, document: &Value) {
        let answer = self.client.put(&self.place.path(), document).await;
        match answer.map_err(Error::from).and_then(|document| Ok(Object::read(document)?)) {
            Ok(object) => {
                self.retry.reset();
                self.know(object, Source::Live);
            }
            Err(Error::Client(error)) if error.code() == Some(StatusCode::CONFLICT) => self.reread().await,
            Err(error) => self.failed("write", &error).await,
        }
    }

    fn now(&self) -> Timestamp {
        self.applier.machine().clock.now()
    }

    /// Takes in what the watch has heard.
    async fn hear(&mut self) {
        if !self.news.has_changed().unwrap_or(false) {
            return;
        }
        let news = self.news.borrow_and_update().clone();
        match news {
            News::Nothing => return,
            News::Is(object) => self.know(object, Source::Watch),
            News::Gone => {
                tracing::info!("there is no plan Secret");
                self.known = None;
            }
        }
        self.observer.connected().await;
    }

    fn know(&mut self, object: Object, source: Source) {
        let seen = object.seen(source);
        self.known = Some((object, seen));
    }

    /// What has to survive is on the disk before anything else happens. Says whether it is.
    fn remember(&mut self, local: Local) -> bool {
        self.local = local;
        let saved = self.journal.save(self.local.report());
        // A full disk does not keep a result from being reported.
        saved
            .inspect_err(
                |error| tracing::error!(error = %crate::chain(error), "the result is not on the disk"),
            )
            .is_ok()
    }

    async fn reread(&mut self) {
        match self.read().await {
            Ok(Some(object)) => {
                self.retry.reset();
                self.know(object, Source::Live);
            }
            Ok(None) => {
                // The watch may not have heard yet, or the server may be mistaken: then what was last heard still
                // holds.
                self.known = None;
                let pause = self.retry.pause(|bound| self.applier.machine().random(bound));
                self.rest(Some(pause)).await;
                self.news.mark_changed();
            }
            Err(error) => self.failed("read", &error).await,
        }
    }

    async fn read(&self) -> Result<Option<Object>, Error> {
        match self.client.get(&self.place.path()).await {
            Ok(document) => Ok(Some(Object::read(document)?)),
            Err(error) if error.code() == Some(StatusCode::NOT_FOUND) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    async fn write(&mut self, write: &Write, changes: &Changes) {
        let Some((object, _)) = &self.known else { return };
        tracing::debug!(keys = ?changes.keys().collect::<Vec<_>>(), "writing");
        let answer = self.client.put(&self.place.path(), &object.with(changes)).await;
        match answer.map_err(Error::from).and_then(|document| Ok(Object::read(document)?)) {
            Ok(object) => {
                self.retry.reset();
                self.know(object, Source::Live);
                if let Some((_, seen)) = &self.known {
                    self.remember(self.local.written(write, seen));
                }
            }
            Err(Error::Client(error))
                if matches!(error.code(), Some(StatusCode::CONFLICT | StatusCode::NOT_FOUND)) =>
            {
                self.reread().await;
            }
            Err(error) => self.failed("write", &error).await,
        }
    }

    async fn apply(&mut self, job: &Job, forgotten: bool) {
        let outcome = match forgotten {
            true => {
                tracing::info!(plan = %job.delivery.checksum, attempt = job.attempt, "applying");
                self.applier.apply(&job.document, job.attempt, &job.outputs).await
            }
            // A result that is on the disk would be taken for this run's after a crash.
            false => Outcome::Postponed(None),
        };
        match &outcome {
            Outcome::Succeeded(_) => tracing::info!(plan = %job.delivery.checksum, "applied"),
            Outcome::Failed(_) => {
                tracing::error!(plan = %job.delivery.checksum, attempt = job.attempt, "failed")
            }
            Outcome::Postponed(_) => {}
        }
        self.remember(self.local.applied(job, outcome, self.now()));
    }

    async fn tend(&mut self, chores: &Chores) {
        let plan = chores.document.plan();
        let runs = match chores.periodic.is_empty() {
            true => Ok(Vec::new()),
            false => {
                let applier = self.applier;
                applier.periodic(&chores.document, &chores.periodic, &chores.outputs).await
            }
        };
        let runs = match runs {
            Ok(runs) => runs,
            Err(postponed) => {
                tracing::warn!(why = postponed.why, "periodic instructions are not run now");
                let checksum = chores.delivery.checksum;
                self.remember(self.local.postponed(checksum, postponed.until, self.now()));
                return;
            }
        };
        let answers = probes::ask(&self.applier.machine().prober, &plan.probes, &chores.probes).await;
        self.remember(self.local.tended(chores, Tended { runs, answers }, self.now()));
    }

    /// Trusts whom the server says, and says so. Nothing if the Secret was written: it is to be looked at again. Else when
    /// to try again, if that did not work.
    async fn follow_authority(&mut self) -> Option<Option<Timestamp>> {
        let now = self.now();
        let (Some(authority), Some((object, _))) = (&mut self.authority, &self.known) else {
            return Some(None);
        };
        let Some(wanted) = object.annotation(WANTED).filter(|wanted| !wanted.is_empty()) else {
            return Some(None);
        };
        if let Err(later) = authority.follow(self.client, wanted, now).await {
            return Some(Some(later));
        }
        if object.annotation(TRUSTED) == Some(wanted) {
            return Some(None);
        }
        let document = object.annotated([(TRUSTED, wanted)]);
        self.send(&document).await;
        None
    }

    /// Gets the binary that the server would have run, and says which one runs. As for authorities: nothing if the Secret was
    /// written, else when to try again.
    async fn follow_binary(&mut self) -> Option<Option<Timestamp>> {
        let Some((object, _)) = &self.known else { return Some(None) };
        let wanted = object.annotation(binary::WANTED).unwrap_or_default();
        let Followed { notes, again } = self.observer.binary(self.client, wanted).await;
        let news: Vec<_> =
            notes.iter().filter(|(name, value)| object.annotation(name) != Some(value.as_str())).collect();
        if news.is_empty() {
            return Some(again);
        }
        let document = object.annotated(news.iter().map(|(name, value)| (*name, value.as_str())));
        self.send(&document).await;
        None
    }

    async fn failed(&mut self, what: &str, error: &Error) {
        let pause = self.retry.pause(|bound| self.applier.machine().random(bound));
        tracing::warn!(error = %crate::chain(error), retry_in = ?pause, "cannot {what} the plan Secret");
        self.rest(Some(pause)).await;
    }

    /// Until news come, or the time does.
    async fn nap(&mut self, until: Option<Timestamp>) {
        let now = self.now();
        let left = |until: Timestamp| Duration::try_from(until.duration_since(now)).unwrap_or(Duration::ZERO);
        self.rest(until.map(|until| left(until).min(NAP))).await;
    }

    async fn rest(&mut self, pause: Option<Duration>) {
        tokio::select! {
            biased;
            heard = self.news.changed() => {
                if heard.is_ok() {
                    // It is still to be taken in.
                    self.news.mark_changed();
                }
            }
            () = tokio::time::sleep(pause.unwrap_or_default()), if pause.is_some() => {}
        }
    }

    /// Once for each plan and reason: people look here to see why nothing happens.
    fn say(&mut self, why: Why) {
        let Some((_, seen)) = &self.known else { return };
        let plan = seen.secret.checksum.map(|checksum| checksum.to_string()).unwrap_or_default();
        let now = Some((plan, why));
        if self.said != now {
            let plan = now.as_ref().map(|(plan, _)| plan.as_str());
            tracing::info!(plan, ?why, "at rest");
            self.said = now;
        }
    }
}
