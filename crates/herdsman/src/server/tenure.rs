//! A lease that this process tries for, and holds as long as it can.

use std::sync::Arc;
use std::time::Duration;

use clock::Clock;
use kit::lease::Candidate;
use kube::Client;
use tokio::sync::watch;

/// A cluster that does not answer must not keep the process.
const RELEASE_WITHIN: Duration = Duration::from_secs(3);

/// Who we are to the others, and where leases are.
#[derive(Clone)]
pub(super) struct Electorate {
    pub(super) client: Client,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) namespace: String,
    pub(super) identity: String,
}

/// A campaign for one lease. It ends with this value.
pub(super) struct Tenure {
    held: watch::Receiver<bool>,
    campaign: tokio::task::AbortHandle,
}

impl Electorate {
    /// Begins to try for a lease.
    pub(super) fn run_for(&self, lease: &str) -> Tenure {
        let (tell, held) = watch::channel(false);
        let candidate = Candidate {
            client: self.client.clone(),
            clock: self.clock.clone(),
            namespace: self.namespace.clone(),
            name: lease.into(),
            identity: self.identity.clone(),
        };
        Tenure { held, campaign: tokio::spawn(candidate.run(tell)).abort_handle() }
    }

    /// Lets leases go that we hold, so that nobody has to wait for them to run out.
    pub(super) async fn release(&self, leases: &[&str]) {
        let all = async {
            for lease in leases {
                Candidate::release(&self.client, &self.namespace, lease, &self.identity).await;
            }
        };
        let _ = tokio::time::timeout(RELEASE_WITHIN, all).await;
    }
}

impl Tenure {
    /// Waits until the lease is ours.
    pub(super) async fn won(&mut self) {
        // The sender lives in the campaign.
        let _ = self.held.wait_for(|held| *held).await;
    }

    /// Waits until it is ours no more.
    pub(super) async fn lost(&mut self) {
        let _ = self.held.wait_for(|held| !*held).await;
    }
}

impl Drop for Tenure {
    fn drop(&mut self) {
        self.campaign.abort();
    }
}
