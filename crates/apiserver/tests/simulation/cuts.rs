use std::convert::Infallible;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use apiserver::http::{AsUser, Body};
use bytes::Bytes;
use clock::{Entropy, SeededEntropy};
use http_body::Frame;
use kube::client::Body as ClientBody;

/// A connection to the server that breaks now and then: a watch ends in the middle after a random time.
#[derive(Clone)]
pub(crate) struct Cutting {
    inner: AsUser,
    entropy: Arc<Mutex<SeededEntropy>>,
    pub(crate) cuts: Arc<AtomicUsize>,
}

impl Cutting {
    pub(crate) fn new(inner: AsUser, seed: u64) -> Self {
        Cutting { inner, entropy: Arc::new(Mutex::new(SeededEntropy::new(seed))), cuts: Arc::default() }
    }
}

impl tower::Service<http::Request<ClientBody>> for Cutting {
    type Response = http::Response<Cut>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<ClientBody>) -> Self::Future {
        let watch = request.uri().query().is_some_and(|query| query.contains("watch=true"));
        let lasts = self.entropy.lock().unwrap().below(1200);
        let cuts = self.cuts.clone();
        let mut inner = self.inner.clone();
        Box::pin(async move {
            let answer = tower::Service::call(&mut inner, request).await;
            let response = answer.unwrap_or_else(|never| match never {});
            let end = watch.then(|| Box::pin(tokio::time::sleep(Duration::from_secs(lasts.into()))));
            Ok(response.map(|body| Cut { body, end, cuts }))
        })
    }
}

/// A body that ends before its time.
pub(crate) struct Cut {
    body: Body,
    end: Option<Pin<Box<tokio::time::Sleep>>>,
    cuts: Arc<AtomicUsize>,
}

impl http_body::Body for Cut {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        if let Some(end) = &mut self.end
            && end.as_mut().poll(context).is_ready()
        {
            self.cuts.fetch_add(1, Ordering::Relaxed);
            return Poll::Ready(Some(Err(std::io::ErrorKind::ConnectionReset.into())));
        }
        Pin::new(&mut self.body).poll_frame(context).map_err(std::io::Error::other)
    }
}
