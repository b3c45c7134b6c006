//! What connections are served for.

use ::http::{Request, Response};
use bytes::Bytes;
use hyper::body::Incoming;

use super::{Api, Body, Settings};

/// What answers the requests of connections: an [`Api`], or something that stands in front of one. Clones are the same.
pub trait Front: Clone + Send + Sync + 'static {
    /// The bodies of its answers.
    type Body: http_body::Body<Data = Bytes, Error: Into<Box<dyn std::error::Error + Send + Sync>>>
        + Send
        + Unpin
        + 'static;

    /// What clients get.
    fn settings(&self) -> &Settings;

    /// Waits until no more is to be served.
    fn closed(&self) -> impl Future<Output = ()> + Send;

    /// Answers a request. What goes wrong is in the answer. An answer `101` to a request over HTTP/1.1 hands the connection
    /// over to whoever took `hyper::upgrade::on` of the request.
    fn answer(&self, request: Request<Incoming>) -> impl Future<Output = Response<Self::Body>> + Send;

    /// Is told that a connection was not taken, for there were too many.
    fn refused_connection(&self) {}

    /// Whether an address is a load balancer's: its connections are those of many clients, and do not count for one address.
    fn is_proxy(&self, _address: std::net::IpAddr) -> bool {
        false
    }
}

impl Front for Api {
    type Body = Body;

    fn settings(&self) -> &Settings {
        Api::settings(self)
    }

    async fn closed(&self) {
        Api::closed(self).await;
    }

    async fn answer(&self, request: Request<Incoming>) -> Response<Body> {
        self.handle(request).await
    }

    fn refused_connection(&self) {
        self.0.metrics.refused_connection();
    }
}
