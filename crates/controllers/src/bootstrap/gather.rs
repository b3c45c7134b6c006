//! What is known of one machine.

use std::sync::Arc;

use ::provisioning::bootstrap::{Facts, Server, token};
use api::Kind as _;
use api::capi::v1beta2::{Cluster, Machine};
use api::catalogue::annotations;
use api::catalogue::secrets::keys;
use api::names;
use api::rke::v1::{RKEBootstrap, RKEControlPlane};
use k8s_openapi::api::core::v1::Secret;
use kit::{Key, Object, owners};

use super::context::Context;
use crate::error::Error;

/// A bootstrap object and what stands around it.
pub(super) struct Seen {
    pub(super) object: Arc<Object>,
    pub(super) bootstrap: Arc<RKEBootstrap>,
    pub(super) machine: Option<Arc<Machine>>,
    cluster: Option<Arc<Cluster>>,
    control_plane: Option<Arc<RKEControlPlane>>,
    /// The control plane keeps its marks on RKEBootstraps: plan Secrets say nothing of their own.
    pub(super) shows_bootstrap: bool,
    /// What the server introduces itself with.
    introduction: Option<String>,
    /// The bootstrap account, which a token can be made for once it is there.
    pub(super) account: Option<Arc<Object>>,
    /// The Secret of its token.
    pub(super) token: Option<Arc<Object>>,
}

impl Seen {
    pub(super) fn facts<'a>(&'a self, server: &'a Server<'a>) -> Facts<'a> {
        Facts {
            bootstrap: &self.bootstrap,
            machine: self.machine.as_deref(),
            cluster: self.cluster.as_deref(),
            control_plane: self.control_plane.as_deref(),
            token: self.introduction.as_deref(),
            server,
        }
    }
}

/// Name of the Secret with the token of an account. It is fixed: whoever looks twice makes one.
pub(super) fn token_secret(account: &str) -> String {
    names::safe_concat(&[account, "token"])
}

pub(super) fn bootstrap(context: &Context, object: Arc<Object>) -> Result<Seen, Error> {
    let bootstrap: Arc<RKEBootstrap> = object.view()?;
    let namespace = object.namespace();
    let machine = owners::known(&object, &context.machines);
    let machine: Option<Arc<Machine>> = machine.map(|one| one.view()).transpose()?;
    let cluster = machine.as_ref().map(|machine| Key::new(namespace, &machine.spec.cluster_name));
    let cluster = cluster.and_then(|key| context.clusters.get(&key));
    let cluster: Option<Arc<Cluster>> = cluster.map(|one| one.view()).transpose()?;
    let plane = cluster.as_ref().and_then(|cluster| cluster.spec.control_plane_ref.as_ref());
    let plane = plane.filter(|reference| reference.kind == RKEControlPlane::KIND);
    let plane = plane.and_then(|one| context.control_planes.get(&Key::new(namespace, &one.name)));
    let account = names::bootstrap_secret(names::Bootstrap(object.name()));
    let token = context.secrets.get(&Key::new(namespace, &token_secret(&account)));
    let shows_bootstrap =
        plane.as_ref().is_some_and(|one| one.annotation(annotations::HERDSMAN_MARKS).is_some());
    Ok(Seen {
        machine,
        cluster,
        control_plane: plane.map(|one| one.view()).transpose()?,
        shows_bootstrap,
        introduction: token.as_ref().map(|token| introduction(token)).transpose()?.flatten(),
        account: context.accounts.get(&Key::new(namespace, &account)),
        token,
        bootstrap,
        object,
    })
}

/// What stands for the account's token in the script, once the API server has issued it.
fn introduction(secret: &Object) -> Result<Option<String>, Error> {
    let secret: Arc<Secret> = secret.view()?;
    let issued = secret.data.as_ref().and_then(|data| data.get(keys::TOKEN)).filter(|one| !one.0.is_empty());
    Ok(issued.map(|token| token::introduction(&token.0)))
}
