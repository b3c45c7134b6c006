//! A client that somebody is always faster than.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use apiserver::http::AsUser;
use clock::{Entropy as _, SeededEntropy};
use kube::client::Body;
use tower::ServiceExt as _;

/// What happens to writes.
#[derive(Clone)]
pub(crate) struct Faults {
    /// Somebody else writes objects just before we do.
    pub(crate) conflicts: Arc<AtomicBool>,
    touched: Arc<Mutex<BTreeSet<String>>>,
    luck: Arc<Mutex<SeededEntropy>>,
    writes: Arc<AtomicUsize>,
    /// What was written, in order.
    pub(crate) log: Arc<Mutex<Vec<String>>>,
}

impl Faults {
    pub(crate) fn new(seed: u64) -> Self {
        Faults {
            conflicts: Arc::default(),
            touched: Arc::default(),
            luck: Arc::new(Mutex::new(SeededEntropy::new(seed))),
            writes: Arc::default(),
            log: Arc::default(),
        }
    }

    /// What was written since the last time, by verb and kind.
    pub(crate) fn take(&self) -> BTreeMap<String, usize> {
        let mut counts = BTreeMap::new();
        for line in std::mem::take(&mut *self.log.lock().unwrap()) {
            let (verb, path) = line.split_once(' ').unwrap();
            let mut parts = path.split('/').skip_while(|part| *part != "namespaces").skip(2);
            let kind = parts.next().unwrap_or_default();
            let status = if path.ends_with("/status") { "/status" } else { "" };
            *counts.entry(format!("{verb} {kind}{status}")).or_default() += 1;
        }
        counts
    }

    pub(crate) fn over(&self, inner: AsUser) -> Faulty {
        Faulty { inner, faults: self.clone() }
    }
}

#[derive(Clone)]
pub(crate) struct Faulty {
    inner: AsUser,
    faults: Faults,
}

type Answer = <AsUser as tower::Service<http::Request<Body>>>::Response;
type Failure = <AsUser as tower::Service<http::Request<Body>>>::Error;

impl tower::Service<http::Request<Body>> for Faulty {
    type Response = Answer;
    type Error = Failure;
    type Future = Pin<Box<dyn Future<Output = Result<Answer, Failure>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        tower::Service::<http::Request<Body>>::poll_ready(&mut self.inner, context)
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let (inner, faults) = (self.inner.clone(), self.faults.clone());
        Box::pin(async move {
            let path = request.uri().path().to_owned();
            if request.method() != http::Method::GET {
                faults.log.lock().unwrap().push(format!("{} {path}", request.method()));
            }
            if request.method() == http::Method::PATCH && faults.conflicts.load(Ordering::Relaxed) {
                let object = path.trim_end_matches("/status").to_owned();
                // The first write of every object, and half of those after it: everything succeeds in the end.
                let first = faults.touched.lock().unwrap().insert(path);
                let unlucky = faults.luck.lock().unwrap().below(2) == 0;
                if first || unlucky {
                    let count = faults.writes.fetch_add(1, Ordering::Relaxed);
                    let body = format!(r#"{{"metadata":{{"annotations":{{"test/touched":"{count}"}}}}}}"#);
                    let touch = http::Request::patch(object)
                        .header("content-type", "application/merge-patch+json")
                        .body(Body::from(body.into_bytes()))
                        .unwrap();
                    let _ = inner.clone().oneshot(touch).await;
                }
            }
            inner.oneshot(request).await
        })
    }
}
