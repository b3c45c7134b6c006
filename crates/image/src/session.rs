//! Talking with one registry about one repository: proving who we are when asked.

use http::StatusCode;
use http::header::WWW_AUTHENTICATE;
use serde::Deserialize;

use crate::attempts::Attempt;
use crate::challenge::{Challenge, encoded};
use crate::client::{self, Client, Request, Response};
use crate::credentials::Credentials;
use crate::url::Url;

/// The longest token that is taken.
const MAX_TOKEN: u64 = 256 << 10;

/// Why a registry does not answer.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The request failed.
    #[error(transparent)]
    Client(#[from] client::Error),
    /// It wants a proof that we do not understand.
    #[error("{0}: access denied, and no way to log in is offered that is known here (Basic, Bearer)")]
    Challenge(String),
    /// It wants a name and a password, and there are none.
    #[error(
        "{url}: access denied, and there are no credentials for {host}; registries.yaml names them: configs, \
         \"{host}\", auth"
    )]
    NoCredentials {
        /// For this URL.
        url: String,
        /// Whose credentials.
        host: String,
    },
    /// Credentials would have to go over an unencrypted connection.
    #[error("{0} asks for a token from an unencrypted address: credentials are not sent there")]
    Insecure(String),
    /// The token that came is none.
    #[error("{0} answers without a token")]
    NoToken(String),
}

impl Error {
    pub(crate) fn is_transient(&self) -> bool {
        matches!(self, Error::Client(error) if error.is_transient())
    }
}

/// A registry, a repository there, and who we are.
pub(crate) struct Session<'a> {
    client: &'a Client,
    attempt: &'a Attempt,
    credentials: Credentials,
    /// What was accepted last.
    authorization: Option<String>,
}

/// A token server's answer.
#[derive(Deserialize)]
struct Token {
    token: Option<String>,
    access_token: Option<String>,
}

impl<'a> Session<'a> {
    pub(crate) fn new(client: &'a Client, attempt: &'a Attempt, credentials: Credentials) -> Self {
        let authorization = match &credentials {
            Credentials::Access(token) => Some(format!("Bearer {token}")),
            _ => None,
        };
        Session { client, attempt, credentials, authorization }
    }

    /// Gets something of the repository, such as `manifests/latest`.
    pub(crate) async fn get(&mut self, what: &str, accept: Option<&'static str>) -> Result<Response, Error> {
        let Attempt { endpoint, repository, namespace, .. } = self.attempt;
        let mut url = Url {
            secure: endpoint.secure,
            authority: endpoint.authority.clone(),
            target: format!("{}/{repository}/{what}", endpoint.path),
        };
        if let Some(namespace) = namespace {
            url = url.with_query("ns", &encoded(namespace));
        }
        let response = self.send(&url, accept).await?;
        if response.status != StatusCode::UNAUTHORIZED {
            return Ok(response.success().await?);
        }
        self.authorization = Some(self.answer(&url, &response).await?);
        Ok(self.send(&url, accept).await?.success().await?)
    }

    async fn send(&self, url: &Url, accept: Option<&'static str>) -> Result<Response, Error> {
        let request = Request { url, accept, authorization: self.authorization.as_deref(), form: None };
        Ok(self.client.send(request).await?)
    }

    /// The authorization that a refusal asks for.
    async fn answer(&self, url: &Url, refusal: &Response) -> Result<String, Error> {
        let headers = refusal.headers.get_all(WWW_AUTHENTICATE).iter();
        let challenge = Challenge::choose(headers.filter_map(|header| header.to_str().ok()));
        match challenge.ok_or_else(|| Error::Challenge(url.to_string()))? {
            Challenge::Basic => match &self.credentials {
                Credentials::Basic(encoded) => Ok(format!("Basic {encoded}")),
                _ => Err(Error::NoCredentials { url: url.to_string(), host: url.authority.clone() }),
            },
            Challenge::Bearer { realm, service, scope } => {
                let realm = Url::parse(&realm).ok_or_else(|| Error::Challenge(url.to_string()))?;
                if url.secure && !realm.secure && self.credentials != Credentials::Anonymous {
                    return Err(Error::Insecure(url.to_string()));
                }
                let scope = scope.unwrap_or_else(|| format!("repository:{}:pull", self.attempt.repository));
                Ok(format!("Bearer {}", self.token(realm, service.as_deref(), &scope).await?))
            }
        }
    }

    /// Gets a token: with an identity by OAuth2, else by Docker's older way.
    async fn token(&self, realm: Url, service: Option<&str>, scope: &str) -> Result<String, Error> {
        let (service, scope) = (service.map(encoded), encoded(scope));
        let response = if let Credentials::Identity(token) = &self.credentials {
            let service = service.unwrap_or_default();
            let form = format!(
                "grant_type=refresh_token&client_id=herdsman&service={service}&scope={scope}&refresh_token={}",
                encoded(token)
            );
            let request = Request { url: &realm, accept: None, authorization: None, form: Some(form) };
            self.client.send(request).await?
        } else {
            let basic = match &self.credentials {
                Credentials::Basic(encoded) => Some(format!("Basic {encoded}")),
                _ => None,
            };
            let mut url = realm.clone();
            if let Some(service) = &service {
                url = url.with_query("service", service);
            }
            let url = url.with_query("scope", &scope);
            let request = Request { url: &url, accept: None, authorization: basic.as_deref(), form: None };
            self.client.send(request).await?
        };
        let body = response.success().await?.bytes(MAX_TOKEN).await?.unwrap_or_default();
        let token: Option<Token> = serde_json::from_slice(&body).ok();
        let token =
            token.and_then(|token| token.token.or(token.access_token)).filter(|token| !token.is_empty());
        token.ok_or_else(|| Error::NoToken(realm.to_string()))
    }
}
