//! What the controllers write, counted: a bar each for a machine and for a cluster.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use apiserver::http::AsUser;
use kube::client::Body;
use serde_json::json;

use crate::provider::Speaks;
use crate::world::{World, story};

/// Writes by method and resource.
#[derive(Clone, Default)]
pub(crate) struct Writes(Arc<Mutex<BTreeMap<String, usize>>>);

impl Writes {
    pub(crate) fn counting(&self, inner: AsUser) -> Counting {
        Counting { inner, writes: self.clone() }
    }

    /// What was written since the last time, events aside.
    pub(crate) fn take(&self) -> BTreeMap<String, usize> {
        let mut all = std::mem::take(&mut *self.0.lock().unwrap());
        all.retain(|what, _| !what.ends_with(" events"));
        all
    }
}

/// A client whose writes are counted.
#[derive(Clone)]
pub(crate) struct Counting {
    inner: AsUser,
    writes: Writes,
}

impl tower::Service<http::Request<Body>> for Counting {
    type Response = <AsUser as tower::Service<http::Request<Body>>>::Response;
    type Error = <AsUser as tower::Service<http::Request<Body>>>::Error;
    type Future = <AsUser as tower::Service<http::Request<Body>>>::Future;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        tower::Service::<http::Request<Body>>::poll_ready(&mut self.inner, context)
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        if request.method() != http::Method::GET {
            let mut parts = request.uri().path().split('/').skip_while(|part| *part != "namespaces").skip(2);
            let what = format!("{} {}", request.method(), parts.next().unwrap_or_default());
            *self.writes.0.lock().unwrap().entry(what).or_default() += 1;
        }
        self.inner.call(request)
    }
}

/// One more worker, from the set's scale-up until it runs.
#[test]
fn a_machine_costs_few_writes() {
    story(|| async {
        let world = World::simulated(Speaks::V1Beta2, 61).await;
        world.cluster("c").await;
        world.pool("c", "p", 0, json!({})).await;
        world.sleep(60).await;
        let set = crate::world::name(&world.list("MachineSet").await[0]);
        // The set stands alone for this: its deployment would count too.
        world.patch("MachineDeployment", "p", json!({"spec": {"paused": true}})).await;
        world.sleep(60).await;
        world.site.writes.take();
        world.patch("MachineDeployment", "p", json!({"spec": {"replicas": 1}})).await;
        world.pool_ready("p", 1).await;
        world.sleep(60).await;
        let written = world.site.writes.take();
        println!("{set}: {written:?}");
        for kind in ["machines", "testmachines", "testconfigs"] {
            assert_eq!(written.get(&format!("POST {kind}")), Some(&1), "{written:?}");
        }
        let machine = written.get("PATCH machines").copied().unwrap_or_default();
        let clones = ["testmachines", "testconfigs"]
            .map(|kind| written.get(&format!("PATCH {kind}")).copied().unwrap_or_default());
        let verdict = if machine <= 4 { "ok" } else { "short" };
        println!("figure machine-writes value={machine} writes bar=<=4 {verdict}");
        assert_eq!(clones, [0, 0], "clones are made as they shall be");
        // What it takes today; docs/capi.md says what is aimed at.
        assert!(machine <= 6, "{written:?}");
    });
}

/// A cluster, from its creation until it is provisioned.
#[test]
fn a_cluster_costs_few_writes() {
    for speaks in [Speaks::V1Beta1, Speaks::V1Beta2] {
        story(|| async move {
            let world = World::simulated(speaks, 62).await;
            world.cluster("c").await;
            let written = world.site.writes.take();
            println!("{written:?}");
            let of = |what: &str| written.get(what).copied().unwrap_or_default();
            let total = of("PATCH clusters") + of("PATCH testclusters") + of("PATCH testcontrolplanes");
            println!("figure cluster-writes value={total} writes bar=<=8 ok");
            assert!(total <= 8, "{written:?}");
        });
    }
}
