//! What all replicas share: an authority for their certificates, and a token by which they know each other. Both are in one Secret,
//! which the first of them makes.

use std::collections::BTreeMap;

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
const TOKEN: &str = "peer-token";

/// What is in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Shared {
    pub(super) authority: Authority,
    pub(super) peer_token: String,
}

impl Shared {
    /// Reads it, or makes it if there is none.
    pub(super) async fn ensure(client: &Client, namespace: &str, clock: &dyn Clock) -> anyhow::Result<Self> {
        let secrets: Api<Secret> = Api::namespaced(client.clone(), namespace);
        let failed =
            || format!("cannot read or make the Secret {namespace}/{SECRET} that all replicas share");
        if let Some(found) = secrets.get_opt(SECRET).await.with_context(failed)? {
            return Shared::read(&found).with_context(|| unusable(namespace));
        }
        let made = Shared {
            authority: Authority::new(clock.now(), &mut SystemEntropy)?,
            peer_token: api::names::token(&mut SystemEntropy),
        };
        match secrets.create(&PostParams::default(), &made.secret()).await {
            // Another one was faster: its word counts.
            Err(error) if kit::write::code(&error) == Some(409) => {
                Shared::read(&secrets.get(SECRET).await.with_context(failed)?)
                    .with_context(|| unusable(namespace))
            }
            created => created.map(|_| made).with_context(failed),
        }
    }

    fn secret(&self) -> Secret {
        let Authority { certificate, key } = &self.authority;
        let data = [(CERTIFICATE, certificate), (KEY, key), (TOKEN, &self.peer_token)];
        let data = data.map(|(name, value)| (name.to_owned(), ByteString(value.clone().into_bytes())));
        Secret {
            metadata: ObjectMeta { name: Some(SECRET.into()), ..ObjectMeta::default() },
            data: Some(BTreeMap::from(data)),
            ..Secret::default()
        }
    }

    fn read(secret: &Secret) -> Option<Self> {
        let text = |name: &str| {
            let value = secret.data.as_ref()?.get(name)?;
            String::from_utf8(value.0.clone()).ok().filter(|text| !text.is_empty())
        };
        let authority = Authority { certificate: text(CERTIFICATE)?, key: text(KEY)? };
        Some(Shared { authority, peer_token: text(TOKEN)? })
    }
}

fn unusable(namespace: &str) -> String {
    format!(
        "the Secret {namespace}/{SECRET} lacks one of {CERTIFICATE}, {KEY}, {TOKEN}: restore it, or delete it, and every node \
         has to be told to trust a new authority"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_kept_is_read_again() {
        let authority = Authority { certificate: "cert".into(), key: "key".into() };
        let shared = Shared { authority, peer_token: "t".into() };
        let mut secret = shared.secret();
        assert_eq!(Shared::read(&secret), Some(shared));
        secret.data.as_mut().unwrap().remove(TOKEN);
        assert_eq!(Shared::read(&secret), None);
    }
}
