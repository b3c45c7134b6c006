//! Who asks, and whether they may.

mod certificate;
mod issue;
mod key;
mod oidc;
mod request;
mod review;
mod standing;
mod verify;

use std::pin::Pin;
use std::sync::Arc;

use ::http::HeaderMap;
use ::http::header::AUTHORIZATION;
use kubeapi::Status;
use kubeapi::authn::User;
use kubeapi::authn::impersonation::Impersonation;
use kubeapi::rbac::{self, Attributes, ResourceTarget};
use kubeapi::request::{Target, Verb};
use rustls::pki_types::CertificateDer;

use crate::server::{Answer, Request, Server};

pub use key::{KeyError, SigningKey};
pub(crate) use review::user_info;
pub(crate) use standing::Standing;
use verify::{Accepted, Refusal};

/// The issuer of tokens unless another is given.
pub const ISSUER: &str = "https://kubernetes.default.svc.cluster.local";

/// What upstream says of tokens that nobody knows.
const INVALID: &str = "invalid bearer token";

/// Bearer tokens that somebody else knows: asked after those of ServiceAccounts.
pub trait Tokens: Send + Sync {
    /// Whose token this is; `None` if it is nobody's. The group of all authenticated users is added.
    ///
    /// # Errors
    /// Why it is not good although it is known, or cannot be looked up.
    fn holder<'a>(
        &'a self,
        token: &'a str,
    ) -> Pin<Box<dyn Future<Output = Result<Option<User>, String>> + Send + 'a>>;

    /// The Secrets of this server, by namespace and name, without which the token is not good: when one of them changes, requests that
    /// last are looked at again.
    fn secrets(&self, token: &str) -> Vec<(String, String)> {
        let _ = token;
        Vec::new()
    }
}

/// Knows credentials, and applies the policy that is in the store.
pub struct Auth {
    server: Arc<Server>,
    key: Option<SigningKey>,
    issuer: String,
    audiences: Vec<String>,
    tokens: Option<Arc<dyn Tokens>>,
}

impl std::fmt::Debug for Auth {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Auth").field("issuer", &self.issuer).finish_non_exhaustive()
    }
}

impl Auth {
    /// For a server. Without a key, ServiceAccounts have no tokens.
    pub fn new(server: Arc<Server>) -> Self {
        let (issuer, audiences) = (ISSUER.to_owned(), vec![ISSUER.to_owned()]);
        Auth { server, key: None, issuer, audiences, tokens: None }
    }

    /// The same with tokens of ServiceAccounts, signed by this key.
    #[must_use]
    pub fn with_key(self, key: SigningKey) -> Self {
        Auth { key: Some(key), ..self }
    }

    /// The same as another issuer. It is the audience, too.
    #[must_use]
    pub fn with_issuer(self, issuer: &str) -> Self {
        Auth { issuer: issuer.into(), audiences: vec![issuer.into()], ..self }
    }

    /// The same, with other bearer tokens.
    #[must_use]
    pub fn with_tokens(self, tokens: Arc<dyn Tokens>) -> Self {
        Auth { tokens: Some(tokens), ..self }
    }

    /// Who sends a request with these headers over a connection with these client certificates. Anonymous if there
    /// are no credentials.
    ///
    /// # Errors
    /// 401 if there are credentials that are not good.
    pub async fn authenticate(
        &self,
        headers: &HeaderMap,
        certificates: &[CertificateDer<'_>],
    ) -> Result<User, Status> {
        let mut refused = None;
        if let Some(first) = certificates.first() {
            match certificate::user(first, self.server.clock().now()) {
                Ok(Some(user)) => return Ok(user.authenticated()),
                Ok(None) => {}
                Err(error) => refused = Some(error.to_string()),
            }
        }
        if let Some(token) = bearer(headers) {
            match self.holder(token, &self.audiences).await {
                Ok(accepted) => return Ok(accepted.user.authenticated()),
                Err(why) => refused = Some(why),
            }
        }
        match refused {
            None => Ok(User::anonymous()),
            Some(why) => {
                tracing::debug!(why, "a request is not authenticated");
                Err(Status::unauthorized())
            }
        }
    }

    /// Whose token this is, or why nobody's.
    async fn holder(&self, token: &str, audiences: &[String]) -> Result<Accepted, String> {
        let refused = match self.service_account(token, audiences) {
            Ok(accepted) => return Ok(accepted),
            Err(Refusal::NotOurs) => INVALID.to_owned(),
            Err(Refusal::Bad(why)) => why,
        };
        let Some(tokens) = &self.tokens else { return Err(refused) };
        // Such tokens are for this server only.
        let common: Vec<String> =
            self.audiences.iter().filter(|one| audiences.contains(one)).cloned().collect();
        match tokens.holder(token).await? {
            Some(user) if !common.is_empty() => Ok(Accepted { user, audiences: common }),
            _ => Err(refused),
        }
    }

    /// The token for a Secret of type `kubernetes.io/service-account-token`: it is good while the Secret and the
    /// account are there, and the Secret holds it. `None` if there is no key.
    ///
    /// # Errors
    /// If nothing can be signed.
    pub fn legacy_token(
        &self,
        namespace: &str,
        secret: &str,
        account: &str,
        account_uid: &str,
    ) -> Result<Option<String>, KeyError> {
        let account = issue::Ref { name: account.into(), uid: account_uid.into() };
        let sign = |key| issue::sign_legacy(key, namespace, secret, &account);
        self.key.as_ref().map(sign).transpose()
    }

    /// As whom the user acts: somebody else, if the headers say so and the user may. The headers that say so are
    /// not for whoever answers: [`Impersonation::is_header`] knows them.
    ///
    /// # Errors
    /// 403 if the user may not, 500 if the headers name no user.
    pub fn impersonate(&self, user: User, headers: &HeaderMap) -> Result<User, Status> {
        let texts =
            headers.iter().map(|(name, value)| (name.as_str(), String::from_utf8_lossy(value.as_bytes())));
        let texts: Vec<_> = texts.collect();
        let asked = Impersonation::from_headers(texts.iter().map(|(name, value)| (*name, &**value)));
        let Some(asked) = asked.map_err(Status::internal)? else { return Ok(user) };
        let policy = self.server.policy();
        for check in asked.checks(&user) {
            decide(&check, &policy)?;
        }
        Ok(asked.user())
    }

    /// Whether the user may do this.
    ///
    /// # Errors
    /// 403 with upstream's words.
    pub fn authorize(&self, user: &User, target: &Target) -> Result<(), Status> {
        self.permission(user, target).1
    }

    /// The same, and what that rests on.
    pub(crate) fn permission(&self, user: &User, target: &Target) -> (String, Result<(), Status>) {
        let (verb, target) = match target {
            Target::Path { verb, path } => (verb.as_str(), rbac::Target::Path(path)),
            Target::Resource(request) => {
                let target = ResourceTarget {
                    group: &request.group_version.group,
                    resource: &request.resource,
                    subresource: &request.subresource,
                    namespace: &request.namespace,
                    name: &request.name,
                };
                (request.verb.as_str(), rbac::Target::Resource(target))
            }
        };
        let attributes = Attributes { user, verb, target };
        let decision = rbac::authorize(&attributes, &self.server.policy());
        let permitted = permitted(&attributes, &decision);
        (decision.reason, permitted)
    }

    /// Answers what is about credentials: TokenReviews and requests for tokens. `None` for all else.
    pub async fn serve(&self, request: &Request) -> Option<Result<Answer, Status>> {
        let target = &request.target;
        let place = (&*target.group_version.group, &*target.resource, &*target.subresource);
        let is_token = place == ("", "serviceaccounts", "token");
        if !is_token && place != ("authentication.k8s.io", "tokenreviews", "") {
            return None;
        }
        let resource = self.server.registry().get(&target.group_version, &target.resource)?.clone();
        Some(match (target.verb, &self.key) {
            (Verb::Create, Some(key)) if is_token => self.request_token(request, &resource, key).await,
            (Verb::Create, None) if is_token => Err(Status::no_such_resource()),
            // A right in one namespace is no right to ask about everybody's tokens.
            (Verb::Create, _) if !target.namespace.is_empty() => Err(Status::no_such_resource()),
            (Verb::Create, _) if target.name.is_empty() => self.review_token(request, resource).await,
            _ => Err(Status::method_not_allowed()),
        })
    }
}

/// The token of an `Authorization` header.
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let mut words = headers.get(AUTHORIZATION)?.to_str().ok()?.trim().split(' ');
    words.next().filter(|scheme| scheme.eq_ignore_ascii_case("bearer"))?;
    words.next().filter(|token| !token.is_empty())
}

fn decide(attributes: &Attributes<'_>, policy: &rbac::Policy) -> Result<(), Status> {
    permitted(attributes, &rbac::authorize(attributes, policy))
}

fn permitted(attributes: &Attributes<'_>, decision: &rbac::Decision) -> Result<(), Status> {
    match decision.allowed {
        true => Ok(()),
        false => Err(rbac::forbidden(attributes, &decision.reason)),
    }
}
