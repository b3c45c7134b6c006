//! What all replicas share: the authorities that vouch for them, and a token by which they know each other. Both are in one
//! Secret, which the first of them makes.

use std::collections::BTreeMap;

use ::gateway::Authorities;
use ::gateway::certificates::Authority;
use anyhow::Context as _;
use clock::{Clock, SystemEntropy};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, Client};

/// The Secret.
pub(super) const SECRET: &str = "herdsman-server";

const CERTIFICATE: &str = "ca.crt";
const KEY: &str = "ca.key";
/// All of them, in Secrets of versions that know of more than one; the two above are those of the one that issues.
const AUTHORITIES: &str = "authorities.json";
const TOKEN: &str = "peer-token";

/// What is in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Shared {
    pub(crate) authorities: Authorities,
    pub(super) peer_token: String,
}

impl Shared {
    /// Reads it, or makes it if there is none.
    pub(super) async fn ensure(client: &Client, namespace: &str, clock: &dyn Clock) -> anyhow::Result<Self> {
        let secrets = secrets(client, namespace);
        let failed =
            || format!("cannot read or make the Secret {namespace}/{SECRET} that all replicas share");
        if let Some(found) = secrets.get_opt(SECRET).await.with_context(failed)? {
            return Shared::read(&found).with_context(|| unusable(namespace));
        }
        let made = Shared {
            authorities: Authorities::only(Authority::new(clock.now(), &mut SystemEntropy)?),
            peer_token: api::names::token(&mut SystemEntropy),
        };
        match secrets.create(&PostParams::default(), &made.secret()?).await {
            // Another one was faster: its word counts.
            Err(error) if kit::write::code(&error) == Some(409) => Shared::find(client, namespace).await,
            created => created.map(|_| made).with_context(failed),
        }
    }

    /// Reads what the replicas of a namespace share.
    pub(crate) async fn find(client: &Client, namespace: &str) -> anyhow::Result<Self> {
        let found = secrets(client, namespace).get(SECRET).await;
        let found = found.with_context(|| unread(namespace))?;
        Shared::read(&found).with_context(|| unusable(namespace))
    }

    /// Has other authorities vouch for the replicas: each follows within seconds.
    pub(crate) async fn change(
        client: &Client,
        namespace: &str,
        change: impl Fn(&Authorities) -> anyhow::Result<Authorities>,
    ) -> anyhow::Result<Authorities> {
        let secrets = secrets(client, namespace);
        loop {
            let mut secret = secrets.get(SECRET).await.with_context(|| unread(namespace))?;
            let mut shared = Shared::read(&secret).with_context(|| unusable(namespace))?;
            shared.authorities = change(&shared.authorities)?;
            secret.data.get_or_insert_default().extend(shared.data()?);
            // It says which version it was read in: of two changes at a time one is told so, and looks again.
            match secrets.replace(SECRET, &PostParams::default(), &secret).await {
                Err(error) if kit::write::code(&error) == Some(409) => {}
                replaced => {
                    replaced.with_context(|| format!("cannot write the Secret {namespace}/{SECRET}"))?;
                    return Ok(shared.authorities);
                }
            }
        }
    }

    fn secret(&self) -> serde_json::Result<Secret> {
        Ok(Secret {
            metadata: ObjectMeta { name: Some(SECRET.into()), ..ObjectMeta::default() },
            data: Some(self.data()?),
            ..Secret::default()
        })
    }

    fn data(&self) -> serde_json::Result<BTreeMap<String, ByteString>> {
        let Authority { certificate, key } = &self.authorities.current;
        let all = serde_json::to_string(&self.authorities)?;
        let data = [(CERTIFICATE, certificate), (KEY, key), (AUTHORITIES, &all), (TOKEN, &self.peer_token)];
        Ok(data.map(|(name, value)| (name.to_owned(), ByteString(value.clone().into_bytes()))).into())
    }

    fn read(secret: &Secret) -> Option<Self> {
        let text = |name: &str| {
            let value = secret.data.as_ref()?.get(name)?;
            String::from_utf8(value.0.clone()).ok().filter(|text| !text.is_empty())
        };
        let authorities = match text(AUTHORITIES) {
            Some(all) => serde_json::from_str(&all).ok()?,
            // Whoever made it knew of one only.
            None => Authorities::only(Authority { certificate: text(CERTIFICATE)?, key: text(KEY)? }),
        };
        Some(Shared { authorities, peer_token: text(TOKEN)? })
    }
}

fn secrets(client: &Client, namespace: &str) -> Api<Secret> {
    Api::namespaced(client.clone(), namespace)
}

fn unread(namespace: &str) -> String {
    format!("cannot read the Secret {namespace}/{SECRET}: does `herdsman server` run here?")
}

fn unusable(namespace: &str) -> String {
    format!(
        "the Secret {namespace}/{SECRET} lacks one of {CERTIFICATE}, {KEY}, {TOKEN}, or its {AUTHORITIES} is damaged: restore it, or delete it, and every node \
         has to be told to trust a new authority"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_read_again() {
        let current = Authority { certificate: "cert".into(), key: "key".into() };
        let authorities = Authorities { current, before: vec!["old".into()], bridges: vec!["bridge".into()] };
        let shared = Shared { authorities: authorities.clone(), peer_token: "t".into() };
        let mut secret = shared.secret().unwrap();
        assert_eq!(Shared::read(&secret), Some(shared));
        // One that a version made that knew of one authority only.
        secret.data.as_mut().unwrap().remove(AUTHORITIES);
        assert_eq!(Shared::read(&secret).unwrap().authorities, authorities.alone());
        secret.data.as_mut().unwrap().remove(TOKEN);
        assert_eq!(Shared::read(&secret), None);
    }
}
