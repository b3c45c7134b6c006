//! Requests that last end when who asked may not ask any more: when the token, the account behind it or the permission is gone.

use std::sync::Arc;
use std::time::Duration;

use ::http::HeaderMap;
use ::http::header::{AUTHORIZATION, HeaderName, HeaderValue};
use ::http::request::Parts;
use kubeapi::authn::impersonation::Impersonation;
use kubeapi::authn::split_service_account_user;
use kubeapi::request::{ResourceRequest, Target};

use super::{Auth, bearer};
use crate::http::Certificates;
use crate::server::revocation::{Followed, Ground};

/// How long after a change it is looked into: changes that come together are looked at together.
const SOON: Duration = Duration::from_secs(1);
/// And how long after that once more: others who know tokens may learn of the change a little later.
const LATER: Duration = Duration::from_secs(2);

/// What a request that lasts was permitted by.
#[derive(Debug)]
pub(crate) struct Standing {
    auth: Arc<Auth>,
    /// What says who asks, and as whom.
    headers: Vec<(HeaderName, HeaderValue)>,
    certificates: Certificates,
    /// As whom it was permitted.
    user: String,
    target: Target,
    followed: Followed,
}

impl Auth {
    /// What a request rests on that was permitted to `user`, authenticated as `authenticated`.
    pub(crate) fn standing(
        self: &Arc<Self>,
        parts: &Parts,
        authenticated: &str,
        user: &str,
        target: &ResourceRequest,
    ) -> Standing {
        let mut objects: Vec<String> = Vec::new();
        let accounts = [authenticated, user].into_iter().filter_map(split_service_account_user);
        objects.extend(accounts.map(|(namespace, name)| key("serviceaccounts", namespace, name)));
        if let Some(token) = bearer(&parts.headers) {
            objects.extend(self.bound_to(token));
            let theirs = self.tokens.iter().flat_map(|tokens| tokens.secrets(token));
            objects.extend(theirs.map(|(namespace, name)| key("secrets", &namespace, &name)));
        }
        let users = [Ground::User(authenticated), Ground::User(user)];
        let grounds: Vec<Ground<'_>> =
            objects.iter().map(|object| Ground::Object(object)).chain(users).collect();
        Standing {
            headers: who(&parts.headers),
            certificates: parts.extensions.get::<Certificates>().cloned().unwrap_or_default(),
            user: user.to_owned(),
            target: Target::Resource(target.clone()),
            followed: self.server.revocations().follow(&grounds),
            auth: self.clone(),
        }
    }
}

/// The headers that say who asks. Copied: they would keep the room of the whole request.
fn who(headers: &HeaderMap) -> Vec<(HeaderName, HeaderValue)> {
    let says = |name: &HeaderName| name == AUTHORIZATION || Impersonation::is_header(name.as_str());
    let all = headers.iter().filter(|(name, _)| says(name));
    all.filter_map(|(name, value)| Some((name.clone(), HeaderValue::from_bytes(value.as_bytes()).ok()?)))
        .collect()
}

/// The key of a core object.
pub(super) fn key(plural: &str, namespace: &str, name: &str) -> String {
    match namespace {
        "" => format!("/registry/core/{plural}/{name}"),
        namespace => format!("/registry/core/{plural}/{namespace}/{name}"),
    }
}

impl Standing {
    /// Whether it may have ended: then it has to be asked whether it is [`over`](Self::over).
    pub(crate) fn is_doubtful(&self) -> bool {
        self.followed.doubt().is_raised()
    }

    /// Waits until it is over.
    pub(crate) async fn over(&self) {
        let doubt = self.followed.doubt();
        loop {
            doubt.raised().await;
            tokio::time::sleep(SOON).await;
            let changes = doubt.changes();
            if !self.stands().await {
                return;
            }
            tokio::time::sleep(LATER).await;
            if !self.stands().await {
                return;
            }
            // What has changed meanwhile has raised another.
            doubt.settle(changes);
        }
    }

    /// Whether the same request would be permitted now.
    async fn stands(&self) -> bool {
        let headers: HeaderMap = self.headers.iter().cloned().collect();
        let Ok(authenticated) = self.auth.authenticate(&headers, &self.certificates.0).await else {
            return false;
        };
        let Ok(user) = self.auth.impersonate(authenticated, &headers) else { return false };
        user.name == self.user && self.auth.authorize(&user, &self.target).is_ok()
    }
}
