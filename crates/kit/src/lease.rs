//! One of several processes does the work: the one that holds the lease.

use std::sync::Arc;
use std::time::Duration;

use clock::{Clock, Monotonic};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, Client};
use tokio::sync::watch;

use crate::write::code;

/// How long a lease is good after its last renewal. With [`RETRY`] it is how long nobody works after a crash.
pub const DURATION: Duration = Duration::from_secs(12);
/// How long its holder tries to renew it before it gives up: well before others may take it.
pub const RENEW_WITHIN: Duration = Duration::from_secs(8);
/// How often it is tried for or renewed.
pub const RETRY: Duration = Duration::from_secs(2);

/// What is to be done about a lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Move {
    /// Make it.
    Create,
    /// Take it from somebody who has let it go, or renew it.
    Take,
    /// Somebody else holds it.
    Leave,
}

/// Who holds a lease, as seen by somebody who watches it: what counts is how long ago it was last *seen* to change,
/// not what its holder's clock says.
#[derive(Clone, Debug, Default)]
pub struct Observed {
    record: Option<LeaseSpec>,
    since: Option<Monotonic>,
}

impl Observed {
    /// What `me` does about a lease that looks like this now.
    pub fn decide(&mut self, lease: Option<&LeaseSpec>, me: &str, now: Monotonic) -> Move {
        let Some(lease) = lease else { return Move::Create };
        if self.record.as_ref() != Some(lease) {
            self.record = Some(lease.clone());
            self.since = Some(now);
        }
        let holder = lease.holder_identity.as_deref().unwrap_or_default();
        let lasts = lease.lease_duration_seconds.unwrap_or_default().max(1);
        let lasts = Duration::from_secs(u64::try_from(lasts).unwrap_or_default());
        let expired = self.since.is_some_and(|since| now.since(since) >= lasts);
        if holder.is_empty() || holder == me || expired { Move::Take } else { Move::Leave }
    }
}

/// A lease that is tried for.
pub struct Candidate {
    /// Where leases are.
    pub client: Client,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Namespace of the lease.
    pub namespace: String,
    /// Name of the lease.
    pub name: String,
    /// Who we are; no two processes are the same.
    pub identity: String,
}

impl std::fmt::Debug for Candidate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} for lease {}/{}", self.identity, self.namespace, self.name)
    }
}

impl Candidate {
    /// Tries for the lease for ever, and says in `held` whether we have it. Once it cannot be renewed in time, we do
    /// not have it any more, whatever the server would say.
    pub async fn run(self, held: watch::Sender<bool>) {
        let mut observed = Observed::default();
        let mut renewed = self.clock.monotonic();
        loop {
            let began = self.clock.monotonic();
            // A server that does not answer is as good as none. Who holds the lease knows in time that it does not any more.
            let patience = match *held.borrow() {
                true => RENEW_WITHIN.saturating_sub(began.since(renewed)),
                false => RENEW_WITHIN,
            };
            let attempt = tokio::time::timeout(patience, self.attempt(&mut observed)).await;
            match attempt.unwrap_or_else(|_| Err(kube::Error::Service("no answer in time".into()))) {
                Ok(true) => {
                    renewed = began;
                    held.send_if_modified(|held| !std::mem::replace(held, true));
                }
                Ok(false) => drop(held.send_if_modified(|held| std::mem::replace(held, false))),
                Err(error) => {
                    tracing::warn!(%error, lease = self.name, "cannot reach the lease");
                    if self.clock.monotonic().since(renewed) >= RENEW_WITHIN {
                        held.send_if_modified(|held| std::mem::replace(held, false));
                    }
                }
            }
            let left = RENEW_WITHIN.saturating_sub(self.clock.monotonic().since(renewed));
            let pause = if *held.borrow() { RETRY.min(left) } else { RETRY };
            tokio::time::sleep(pause).await;
        }
    }

    /// Lets the lease go so that another one need not wait.
    pub async fn release(client: &Client, namespace: &str, name: &str, identity: &str) {
        let leases: Api<Lease> = Api::namespaced(client.clone(), namespace);
        let Ok(Some(mut lease)) = leases.get_opt(name).await else { return };
        let Some(spec) = lease.spec.as_mut().filter(|spec| spec.holder_identity.as_deref() == Some(identity))
        else {
            return;
        };
        spec.holder_identity = Some(String::new());
        spec.lease_duration_seconds = Some(1);
        if let Err(error) = leases.replace(name, &PostParams::default(), &lease).await {
            tracing::debug!(%error, "the lease was not let go");
        }
    }

    async fn attempt(&self, observed: &mut Observed) -> Result<bool, kube::Error> {
        let leases: Api<Lease> = Api::namespaced(self.client.clone(), &self.namespace);
        let found = leases.get_opt(&self.name).await?;
        let spec = found.as_ref().and_then(|lease| lease.spec.as_ref());
        let decided = observed.decide(spec, &self.identity, self.clock.monotonic());
        let written = match (decided, found) {
            (Move::Leave, _) => return Ok(false),
            (Move::Take, Some(mut lease)) => {
                lease.spec = Some(self.taken(lease.spec.as_ref()));
                leases.replace(&self.name, &PostParams::default(), &lease).await
            }
            (Move::Create | Move::Take, _) => {
                let metadata = ObjectMeta { name: Some(self.name.clone()), ..ObjectMeta::default() };
                let lease = Lease { metadata, spec: Some(self.taken(None)) };
                leases.create(&PostParams::default(), &lease).await
            }
        };
        match written {
            // Somebody was faster.
            Err(error) if code(&error) == Some(409) => Ok(false),
            other => other.map(|_| true),
        }
    }

    fn taken(&self, before: Option<&LeaseSpec>) -> LeaseSpec {
        let now = micro(self.clock.now());
        let mine = before.filter(|spec| spec.holder_identity.as_deref() == Some(&self.identity));
        let transitions = before.and_then(|spec| spec.lease_transitions).unwrap_or_default();
        LeaseSpec {
            holder_identity: Some(self.identity.clone()),
            lease_duration_seconds: i32::try_from(DURATION.as_secs()).ok(),
            acquire_time: mine.and_then(|spec| spec.acquire_time.clone()).or_else(|| Some(now.clone())),
            renew_time: Some(now),
            lease_transitions: Some(if mine.is_some() || before.is_none() {
                transitions
            } else {
                transitions + 1
            }),
            ..before.cloned().unwrap_or_default()
        }
    }
}

fn micro(now: Timestamp) -> MicroTime {
    let fraction = SignedDuration::from_nanos(i64::from(now.subsec_nanosecond() % 1000));
    MicroTime(now.saturating_sub(fraction).unwrap_or(now))
}

#[cfg(test)]
mod tests {
    use clock::ManualClock;

    use super::*;

    fn lease(holder: &str, renewed: i64) -> LeaseSpec {
        LeaseSpec {
            holder_identity: Some(holder.into()),
            lease_duration_seconds: Some(15),
            renew_time: Some(MicroTime(Timestamp::from_second(renewed).unwrap())),
            ..LeaseSpec::default()
        }
    }

    #[test]
    fn a_lease_is_taken_once_it_has_not_changed_for_its_time() {
        let clock = ManualClock::at(Timestamp::UNIX_EPOCH);
        let mut observed = Observed::default();
        assert_eq!(observed.decide(None, "me", clock.monotonic()), Move::Create);
        assert_eq!(observed.decide(Some(&lease("", 0)), "me", clock.monotonic()), Move::Take);
        assert_eq!(observed.decide(Some(&lease("me", 0)), "me", clock.monotonic()), Move::Take);
        // An old time in the record says nothing: its writer's clock may be wrong.
        assert_eq!(observed.decide(Some(&lease("you", -1_000_000)), "me", clock.monotonic()), Move::Leave);
        clock.advance(Duration::from_secs(14));
        assert_eq!(observed.decide(Some(&lease("you", 5)), "me", clock.monotonic()), Move::Leave);
        clock.advance(Duration::from_secs(14));
        assert_eq!(observed.decide(Some(&lease("you", 5)), "me", clock.monotonic()), Move::Leave);
        clock.advance(Duration::from_secs(1));
        assert_eq!(observed.decide(Some(&lease("you", 5)), "me", clock.monotonic()), Move::Take);
    }
}
