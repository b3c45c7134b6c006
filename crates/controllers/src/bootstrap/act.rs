//! What is done for one machine.

use ::provisioning::Object as Document;
use ::provisioning::bootstrap::{self, hook, repair};
use ::provisioning::graph::applied::Owner;
use ::provisioning::object::controller_reference;
use api::catalogue::secrets::types;
use api::catalogue::{annotations, finalizers, labels};
use api::names;
use kit::{Key, Turn, index};
use serde_json::json;

use super::context::Context;
use super::gather::{Seen, token_secret};
use crate::error::Error;

/// The set of a machine's objects.
pub(super) const SET: &str = "rke-bootstrap";

/// Sees to it that a machine with an etcd member does not go before the member does. Gives whether something was written.
pub(super) async fn finalizer(context: &Context, turn: &Turn, seen: &Seen) -> Result<bool, Error> {
    let mut all = seen.object.meta().finalizers.clone().unwrap_or_default();
    let etcd = seen.object.label(labels::ETCD_ROLE) == Some("true");
    if !etcd || all.iter().any(|one| one == finalizers::RKE_BOOTSTRAP_ETCD_REMOVAL) {
        return Ok(false);
    }
    all.push(finalizers::RKE_BOOTSTRAP_ETCD_REMOVAL.into());
    write_finalizers(context, turn, seen, &all).await?;
    Ok(true)
}

/// Lets the bootstrap object go.
pub(super) async fn release(context: &Context, turn: &Turn, seen: &Seen) -> Result<(), Error> {
    let mut all = seen.object.meta().finalizers.clone().unwrap_or_default();
    let before = all.len();
    all.retain(|one| one != finalizers::RKE_BOOTSTRAP_ETCD_REMOVAL);
    if all.len() == before {
        return Ok(());
    }
    write_finalizers(context, turn, seen, &all).await
}

async fn write_finalizers(context: &Context, turn: &Turn, seen: &Seen, all: &[String]) -> Result<(), Error> {
    let metadata = json!({"finalizers": all, "resourceVersion": seen.object.meta().resource_version});
    let patch = json!({"metadata": metadata});
    let writer = context.objects.writer();
    Ok(writer.patch(turn, &context.bootstraps, &seen.object.key(), patch).await?)
}

/// Places the hook on an etcd Machine.
pub(super) async fn hook(context: &Context, turn: &Turn, seen: &Seen) -> Result<(), Error> {
    let Some(machine) = &seen.machine else { return Ok(()) };
    let Some((key, value)) = hook::place(machine) else { return Ok(()) };
    let patch = json!({"metadata": {"annotations": {key: value}}});
    let name = machine.metadata.name.as_deref().unwrap_or_default();
    let place = Key::new(seen.object.namespace(), name);
    Ok(context.objects.writer().patch(turn, &context.machines, &place, patch).await?)
}

/// Makes what is there for the machine into what should be there.
pub(super) async fn objects(
    context: &Context,
    turn: &Turn,
    seen: &Seen,
    wanted: &[Document],
) -> Result<(), Error> {
    let owned = index::owner(seen.object.uid());
    let namespace = seen.object.namespace();
    let mut there = Vec::new();
    for cache in [&context.accounts, &context.secrets, &context.roles, &context.bindings] {
        let kind = &cache.kind().kind;
        let named = wanted.iter().filter(|one| one.kind() == kind.as_str());
        let named = named.filter_map(|one| cache.get(&Key::new(namespace, one.name())));
        let mut found: Vec<_> = cache.filed(&owned);
        for object in named {
            if !found.iter().any(|one| one.key() == object.key()) {
                found.push(object);
            }
        }
        there.extend(found);
    }
    let owner = Owner { set: SET, object: bootstrap::identity(&seen.bootstrap) };
    for change in context.settled.steps(&owner, wanted, &there, &Default::default())? {
        context.objects.apply(turn, &change).await?;
    }
    Ok(())
}

/// Takes off the plan Secret what its agent, or anybody else, says of the machine and the bootstrap object does not.
pub(super) async fn repair(
    context: &Context,
    turn: &Turn,
    seen: &Seen,
    wanted: &[Document],
) -> Result<(), Error> {
    let name = names::plan_secret(names::Bootstrap(seen.object.name()));
    let wanted = wanted.iter().find(|one| one.kind() == "Secret" && one.name() == name);
    let found = context.secrets.get(&Key::new(seen.object.namespace(), &name));
    let (Some(wanted), Some(found), true) = (wanted, found, seen.shows_bootstrap) else { return Ok(()) };
    let meta = found.meta();
    let Some(mut patch) = repair::repair(wanted, meta.labels.as_ref(), meta.annotations.as_ref()) else {
        return Ok(());
    };
    tracing::warn!(secret = %found.key(), %patch, "a plan Secret says what its RKEBootstrap does not");
    patch["metadata"]["resourceVersion"] = json!(meta.resource_version);
    Ok(context.objects.writer().patch(turn, &context.secrets, &found.key(), patch).await?)
}

/// Has the API server issue a token for the bootstrap account. Newer servers do so only for a Secret that asks for it.
pub(super) async fn token(
    context: &Context,
    turn: &Turn,
    seen: &Seen,
    wanted: &[Document],
) -> Result<(), Error> {
    let name = names::bootstrap_secret(names::Bootstrap(seen.object.name()));
    let needed = wanted.iter().any(|one| one.kind() == "ServiceAccount" && one.name() == name);
    let account = match (&seen.account, &seen.token) {
        (_, Some(token)) if !needed && !token.deleting() => {
            return Ok(context.objects.writer().delete(turn, &context.secrets, token).await?);
        }
        (Some(account), None) if needed => account,
        // It is there, or the account is about to be.
        _ => return Ok(()),
    };
    let owner = controller_reference(&bootstrap::identity(&seen.bootstrap), seen.object.uid());
    let secret = json!({
        "metadata": {
            "name": token_secret(account.name()), "namespace": account.namespace(),
            "labels": {labels::SERVICE_ACCOUNT_NAME: account.name()},
            "annotations": {
                "kubernetes.io/service-account.name": account.name(),
                "kubernetes.io/service-account.uid": account.uid(),
                annotations::BOOTSTRAP_TOKEN: "true",
            },
            "ownerReferences": [owner],
        },
        "type": types::SERVICE_ACCOUNT_TOKEN,
    });
    match context.objects.writer().create(turn, &context.secrets, secret).await {
        Err(error) if error.code() == Some(409) => Ok(()),
        other => Ok(other.map(drop)?),
    }
}
