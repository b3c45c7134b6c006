//! `/k8s/clusters/<id>`: the API of a cluster with a tunnel, for whoever owns the cluster.

use http::{Request, Response, StatusCode};
use hyper::body::Incoming;

use crate::body::{self, Body};
use crate::downstream::Downstreams;
use crate::forward;
use crate::headers;
use crate::kubeconfigs::Kubeconfigs;
use crate::reviews::{Finding, Reviews, VERB};

/// What is wrong with who asks.
pub(crate) enum Refused {
    /// Nobody that we know of.
    Unknown,
    /// They may not.
    Forbidden(String),
    /// It cannot be found out now.
    Unsure(String),
}

impl Refused {
    pub(crate) fn answer(self) -> Response<Body> {
        match self {
            Refused::Unknown => body::status(StatusCode::UNAUTHORIZED, "Unauthorized", "Unauthorized"),
            Refused::Forbidden(why) => body::status(StatusCode::FORBIDDEN, "Forbidden", &why),
            Refused::Unsure(why) => {
                let answer = body::status(StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailable", &why);
                body::retry_after(answer, 1)
            }
        }
    }
}

/// Whether who asks may.
pub(crate) async fn permitted(
    kubeconfigs: &Kubeconfigs,
    reviews: &Reviews,
    request: &Request<Incoming>,
    id: &str,
) -> Result<(), Refused> {
    let token = headers::bearer(request.headers()).ok_or(Refused::Unknown)?;
    if kubeconfigs.opens(token, id) {
        return Ok(());
    }
    match reviews.may(token, id).await {
        Ok(Finding::Allowed) => Ok(()),
        Ok(Finding::Unknown) => Err(Refused::Unknown),
        Ok(Finding::Forbidden) => Err(Refused::Forbidden(format!(
            "clusters.management.cattle.io \"{id}\" is forbidden: verb {VERB:?} is needed to reach the cluster through its proxy"
        ))),
        Err(error) => Err(Refused::Unsure(format!("the management cluster cannot be asked: {error}"))),
    }
}

/// Hands a request on to the cluster. Who asks has been found good; from here on we ask, by the cluster's own account.
pub(crate) async fn proxy(
    downstreams: &Downstreams,
    mut request: Request<Incoming>,
    id: &str,
    path: &str,
) -> Response<Body> {
    let backend = match downstreams.backend(id).await {
        Ok(backend) => backend,
        Err(error) => {
            // The tunnel has been waited for. Clients that are told to come again would do so many times, and say nothing.
            return body::status(StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailable", &error.to_string());
        }
    };
    headers::strip_identity(request.headers_mut());
    *request.uri_mut() = forward::with_path(request.uri(), path);
    forward::forward(backend, request).await
}
