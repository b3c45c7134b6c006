//! A lease that this process tries for, and holds as long as it can.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use clock::Clock;
use kit::lease::Candidate;
use kube::{Client, Config};
use tokio::sync::{oneshot, watch};

/// A cluster that does not answer must not keep the process.
const RELEASE_WITHIN: Duration = Duration::from_secs(3);

/// Who we are to the others, and where leases are.
#[derive(Clone)]
pub(super) struct Electorate {
    pub(super) client: Client,
    pub(super) config: Config,
    pub(super) clock: Arc<dyn Clock>,
    pub(super) namespace: String,
    pub(super) identity: String,
}

/// A campaign for one lease. It ends with this value.
pub(super) struct Tenure {
    held: watch::Receiver<bool>,
    _campaigns: oneshot::Sender<()>,
}

impl Electorate {
    /// Begins to try for a lease, in a thread and with connections of its own: work that keeps everything else busy for a while does not
    /// cost the lease.
    pub(super) fn run_for(&self, lease: &str) -> anyhow::Result<Tenure> {
        let (tell, held) = watch::channel(false);
        let (campaigns, over) = oneshot::channel();
        let (this, name) = (self.clone(), lease.to_owned());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let campaign = move || {
            runtime.block_on(async {
                let Ok(client) = Client::try_from(this.config) else { return };
                let Electorate { clock, namespace, identity, .. } = this;
                let candidate = Candidate { client, clock, namespace, name, identity };
                tokio::select! {
                    () = candidate.run(tell) => {}
                    _ = over => {}
                }
            });
        };
        let thread = std::thread::Builder::new().name(format!("lease {lease}"));
        thread.spawn(campaign).with_context(|| format!("there is no thread for the lease {lease}"))?;
        Ok(Tenure { held, _campaigns: campaigns })
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
