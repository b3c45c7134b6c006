//! A management cluster with the controllers and the providers at work: for one scenario, or for many at a time.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use capi::{ClusterCache, Paces, Probing};
use clock::{Clock, RuntimeClock, SeededEntropy};
use jiff::SignedDuration;
use kit::lease::Candidate;
use kube::api::{Api, DynamicObject, PostParams};
use kube::config::Kubeconfig;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet};

use crate::cost::Writes;
use crate::place::{Places, Server};
use crate::provider::{self, Provider, Speaks};
use crate::world::resource;

/// The lease of whoever does the work, where several could.
const LEASE: &str = "controllers";
/// Who does the work where nobody else could.
const ALONE: &str = "alone";

/// Where Clusters and Machines are.
pub(crate) enum Management {
    Embedded(Server),
    Real {
        kubernetes: Box<peers::Kubernetes>,
        client: kube::Client,
        /// What the controllers write with.
        controllers: kube::Client,
    },
}

impl Management {
    /// A real Kubernetes. The controllers are `user` there, if one is given.
    pub(crate) async fn real(user: Option<&str>) -> Self {
        let kubernetes = tokio::task::spawn_blocking(|| {
            // Long enough for a machine that is busy with other things.
            peers::Kubernetes::options().ready_within(Duration::from_secs(300)).start().unwrap()
        });
        let kubernetes = kubernetes.await.unwrap();
        let kubeconfig = Kubeconfig::read_from(kubernetes.kubeconfig_path()).unwrap();
        let config = kube::Config::from_custom_kubeconfig(kubeconfig, &Default::default()).await.unwrap();
        let mut restricted = config.clone();
        restricted.auth_info.impersonate = user.map(str::to_owned);
        Management::Real {
            kubernetes: Box::new(kubernetes),
            client: kube::Client::try_from(config).unwrap(),
            controllers: kube::Client::try_from(restricted).unwrap(),
        }
    }

    pub(crate) fn client(&self, name: &str) -> kube::Client {
        match self {
            Management::Embedded(server) => server.client(name),
            Management::Real { client, .. } => client.clone(),
        }
    }
}

pub(crate) struct Site {
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) management: Management,
    pub(crate) places: Arc<Places>,
    /// What the controllers write to an embedded management cluster.
    pub(crate) writes: Writes,
    seed: u64,
    /// Who may do the work, by identity.
    staff: Mutex<Vec<(String, AbortHandle)>>,
    running: Mutex<JoinSet<()>>,
}

impl Site {
    /// In simulated time, from a seed, with our kinds and those of a provider.
    pub(crate) async fn simulated(speaks: Speaks, seed: u64) -> Arc<Self> {
        let clock: Arc<dyn Clock> =
            Arc::new(RuntimeClock::starting_at("2026-01-01T00:00:00Z".parse().unwrap()));
        let management = Management::Embedded(Server::start(&clock, seed).await);
        install_ours(&management.client("test")).await;
        let site = Site::prepare(management, clock, seed, &[speaks]).await;
        // Providers look around once a second.
        site.open(&[speaks], Duration::from_secs(1));
        site
    }

    /// In real time, on a real Kubernetes, with providers of all kinds.
    pub(crate) async fn real() -> Arc<Self> {
        let clock: Arc<dyn Clock> = Arc::new(clock::SystemClock);
        let management = Management::real(None).await;
        install_ours(&management.client("test")).await;
        let site = Site::prepare(management, clock, 1, &Speaks::ALL).await;
        site.open(&Speaks::ALL, Duration::from_millis(300));
        site
    }

    /// A management cluster that has the providers' kinds, where nobody is at work yet.
    pub(crate) async fn prepare(
        management: Management,
        clock: Arc<dyn Clock>,
        seed: u64,
        speaks: &[Speaks],
    ) -> Arc<Self> {
        let client = management.client("test");
        for speaks in speaks.iter().filter(|speaks| speaks.is_there_from_the_start()) {
            install(&client, provider::definitions(*speaks)).await;
        }
        Arc::new(Site {
            clock,
            management,
            places: Arc::default(),
            writes: Writes::default(),
            seed,
            staff: Mutex::default(),
            running: Mutex::default(),
        })
    }

    /// Has controllers and providers begin.
    pub(crate) fn open(&self, speaks: &[Speaks], tempo: Duration) {
        let handle = self.spawn(self.controllers(self.seed));
        self.staff.lock().unwrap().push((ALONE.into(), handle));
        for speaks in speaks {
            let client = self.management.client("provider");
            let provider = Provider { speaks: *speaks, client, places: self.places.clone(), tempo };
            self.spawn(provider.run());
        }
    }

    fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) -> AbortHandle {
        self.running.lock().unwrap().spawn(work)
    }

    pub(crate) fn is_real(&self) -> bool {
        matches!(self.management, Management::Real { .. })
    }

    /// The controllers of one process. In real time they are less patient: nobody wants to wait for minutes.
    fn controllers(&self, seed: u64) -> impl Future<Output = ()> + Send + use<> {
        let (probing, paces) = match self.is_real() {
            false => (Probing::default(), Paces::default()),
            true => (
                Probing { every: Duration::from_secs(1), retry: Duration::from_secs(2) },
                Paces {
                    connection_grace: SignedDuration::from_secs(5),
                    node_grace: SignedDuration::from_secs(15),
                    ..Paces::default()
                },
            ),
        };
        let client = match &self.management {
            Management::Embedded(server) => {
                kube::Client::new(self.writes.counting(server.service("controllers")), "default")
            }
            Management::Real { controllers, .. } => controllers.clone(),
        };
        let clusters =
            ClusterCache::probing(client.clone(), self.places.clone(), self.clock.clone(), probing);
        let parts = capi::Parts {
            caches: kit::Caches::new(client, capi::entries),
            clock: self.clock.clone(),
            entropy: Arc::new(Mutex::new(SeededEntropy::new(seed))),
            access: clusters.clone(),
            paces,
            watch_filter: None,
        };
        capi::run(parts, Some(clusters))
    }

    /// From now on several processes stand ready, and the one that holds the lease works.
    pub(crate) fn elect(&self, identities: &[&str]) {
        self.kill(ALONE);
        for (number, identity) in (1..).zip(identities) {
            let candidate = Candidate {
                client: self.management.client(identity),
                clock: self.clock.clone(),
                namespace: "default".into(),
                name: LEASE.into(),
                identity: (*identity).into(),
            };
            let work = self.controllers(self.seed + number);
            let process = async move {
                let (held, mut holds) = watch::channel(false);
                let lead = async {
                    let _ = holds.wait_for(|held| *held).await;
                    tokio::select! {
                        () = work => {}
                        _ = holds.wait_for(|held| !*held) => {}
                    }
                };
                tokio::select! {
                    _ = candidate.run(held) => {}
                    () = lead => {}
                }
            };
            let handle = self.spawn(process);
            self.staff.lock().unwrap().push(((*identity).into(), handle));
        }
    }

    /// Who holds the lease.
    pub(crate) async fn leader(&self) -> Option<String> {
        let resource = resource("coordination.k8s.io", "v1", "Lease", "leases");
        let leases: Api<DynamicObject> =
            Api::namespaced_with(self.management.client("test"), "default", &resource);
        let lease = leases.get_opt(LEASE).await.unwrap()?;
        lease.data["spec"]["holderIdentity"].as_str().map(str::to_owned)
    }

    /// A process ends as if it was killed: it lets nothing go.
    pub(crate) fn kill(&self, identity: &str) {
        for (_, handle) in self.staff.lock().unwrap().iter().filter(|(name, _)| name == identity) {
            handle.abort();
        }
    }
}

/// Installs our own kinds.
pub(crate) async fn install_ours(client: &kube::Client) {
    let ours = |crd: &Value| crd["spec"]["group"] == "cluster.x-k8s.io";
    install(client, api::crd::all().iter().map(|crd| json!(crd)).filter(ours).collect()).await;
}

pub(crate) async fn install(client: &kube::Client, definitions: Vec<Value>) {
    let api: Api<DynamicObject> = Api::all_with(
        client.clone(),
        &resource("apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions"),
    );
    for definition in &definitions {
        api.create(&PostParams::default(), &serde_json::from_value(definition.clone()).unwrap())
            .await
            .unwrap();
    }
    for definition in &definitions {
        let name = crate::world::name(definition);
        let mut served = false;
        for _ in 0..1200 {
            let found = serde_json::to_value(api.get(&name).await.unwrap()).unwrap();
            served = crate::world::condition(&found, "Established")["status"] == "True";
            if served {
                break;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        assert!(served, "{name} is never served");
    }
}
