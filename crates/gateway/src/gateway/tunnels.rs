//! `/v3/connect`: who may open a tunnel; and `/v3/import`, which makes a cluster open one.

use std::net::IpAddr;

use api::catalogue::headers::TUNNEL_TOKEN;
use http::{Request, Response, StatusCode, request};
use hyper::body::Incoming;
use tunnel::ClientKey;
use tunnel::hub::{Authorizer, Verdict};

use super::Gateway;
use crate::Later;
use crate::body::{self, Body};
use crate::credential::{Credential, Hash};
use crate::headers;
use crate::import;
use crate::params;

/// What Rancher's cluster agent puts before the token when it opens its second tunnel, and before the cluster when it is dialled.
const STEVE: &str = "stv-cluster-";

/// Knows clusters by their tokens.
struct Clusters<'a>(&'a Gateway);

impl Clusters<'_> {
    /// The cluster that a token opens a tunnel for.
    fn cluster(&self, token: &str) -> Result<String, Verdict> {
        match self.0.0.book.find(token) {
            Some(Credential::Registration { cluster, tunnels: true, .. }) => Ok(cluster),
            Some(Credential::Registration { .. }) => Err(Verdict::Wrong(
                "this token registers nodes: it opens no tunnel, the cluster's own does (it is in the plan of its servers)".into(),
            )),
            _ => Err(Verdict::Nobody),
        }
    }

    async fn verdict(&self, head: &request::Parts) -> Result<ClientKey, Verdict> {
        if !self.0.0.book.wait_ready().await {
            return Err(Verdict::Wrong(
                "the server has only just started: it does not know all tokens yet".into(),
            ));
        }
        let named = |name: String| ClientKey::new(name).map_err(|error| Verdict::Wrong(error.to_string()));
        if let Some(token) = headers::bearer(&head.headers).and_then(|bearer| bearer.strip_prefix(STEVE)) {
            return named(format!("{STEVE}{}", self.cluster(token)?));
        }
        let token = headers::text(&head.headers, TUNNEL_TOKEN);
        let cluster = self.cluster(token)?;
        let params = params::read(&head.headers).map_err(|error| Verdict::Wrong(error.to_string()))?;
        Ok(self.0.0.downstreams.said(&cluster, params, Hash::of(token)))
    }
}

impl Authorizer for Clusters<'_> {
    fn authorize<'a>(&'a self, head: &'a request::Parts) -> Later<'a, Verdict> {
        Box::pin(async { self.verdict(head).await.map_or_else(|verdict| verdict, Verdict::Is) })
    }
}

impl Gateway {
    pub(super) async fn tunnel(&self, request: Request<Incoming>, from: Option<IpAddr>) -> Response<Body> {
        let answer = self.0.hub.answer(request, &Clusters(self)).await;
        let is_unknown = answer.status() == StatusCode::UNAUTHORIZED;
        let (head, text) = answer.into_parts();
        let text =
            http_body_util::BodyExt::collect(text).await.map(|text| text.to_bytes()).unwrap_or_default();
        let answer = Response::from_parts(head, Body::full(text));
        if is_unknown { self.refused(from, None, answer) } else { answer }
    }

    /// The manifest that makes a cluster dial back, for whoever has the token of its tunnel.
    pub(super) fn import(
        &self,
        token: &str,
        named: Option<&str>,
        headers: &http::HeaderMap,
        from: Option<IpAddr>,
    ) -> Response<Body> {
        // A URL that names another cluster than its token is a guess like any other.
        let known = Clusters(self).cluster(token).ok();
        let Some(cluster) = known.filter(|known| named.is_none_or(|named| named == known)) else {
            let words = "this token imports no cluster: it is unknown, of another cluster than the URL names, or it registers nodes";
            return self.refused(from, Some(token), body::text(StatusCode::NOT_FOUND, words));
        };
        let image = match self.0.downstreams.agent_image(&cluster) {
            Some(image) => image,
            None => self.0.settings.cluster_agent_image.clone(),
        };
        if image.is_empty() {
            let words = "the server has no image of the cluster agent to offer: set spec.desiredAgentImage of the management Cluster";
            return body::text(StatusCode::SERVICE_UNAVAILABLE, words);
        }
        let manifest = import::manifest(&self.public(headers), &image, token);
        body::answer(StatusCode::OK, "application/yaml; charset=utf-8", manifest)
    }
}
