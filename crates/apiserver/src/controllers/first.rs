//! What has to be there before anybody comes.

use std::net::IpAddr;
use std::sync::Arc;

use futures_util::future::try_join_all;
use kubeapi::rbac::{GROUP, bootstrap, reconcile};
use kubeapi::{Status, meta};
use serde_json::{Value, json};

use super::client::{At, Client, or_gone};
use super::{Settings, aggregation, furnishing};
use crate::server::Server;

/// The namespaces of every server.
const NAMESPACES: [&str; 4] = ["default", "kube-node-lease", "kube-public", "kube-system"];

/// The first address of the range that Services are in by default.
const SERVICE_ADDRESS: &str = "10.96.0.1";

/// Makes sure of all objects that a server starts with: namespaces with what every one has, roles and bindings, the
/// Service `kubernetes`. Objects that somebody has changed stay as they are, except that roles get the rules and
/// bindings the subjects that they lack; with the annotation
/// `rbac.authorization.kubernetes.io/autoupdate: "false"` those stay too.
///
/// To be called at every start. Where there is nothing to do it only reads.
///
/// # Errors
/// What the server answered to the first request that failed. What was created until then stays.
pub async fn first_objects(server: &Arc<Server>, settings: &Settings) -> Result<(), Status> {
    let client = &Client::new(server.clone(), "bootstrap", "kube-apiserver").alone();
    let own = NAMESPACES.iter().copied();
    let namespaces: Vec<&str> = own.chain(settings.namespaces.iter().map(String::as_str)).collect();
    // All requests of a kind at once: they share commits.
    try_join_all(namespaces.iter().map(|name| {
        let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        ensure(client, At::namespace(name), object, |_| None)
    }))
    .await?;
    let roles = async { try_join_all(bootstrap::objects().into_iter().map(|one| policy(client, one))).await };
    let furniture = namespaces.iter().map(|name| furnishing::furnish(client, name, &settings.ca));
    let service = async {
        match settings.advertised {
            Some((address, port)) => kubernetes_service(client, address, port).await,
            None => Ok(()),
        }
    };
    tokio::try_join!(roles, try_join_all(furniture), service).map(drop)
}

/// Creates an object if it is not there; else replaces it by what `mend` makes of it, if anything.
async fn ensure(
    client: &Client,
    at: At<'_>,
    wanted: Value,
    mend: impl FnOnce(&Value) -> Option<Value>,
) -> Result<(), Status> {
    match or_gone(client.get(at).await)? {
        None => match client.create(at, wanted).await {
            Err(status) if status.reason == "AlreadyExists" => Ok(()),
            other => other.map(drop),
        },
        Some(found) => match mend(&found) {
            Some(mended) => client.update(at, mended).await.map(drop),
            None => Ok(()),
        },
    }
}

/// A role or binding as upstream has it. Roles that gather others are empty until they have gathered.
async fn policy(client: &Client, wanted: Value) -> Result<(), Status> {
    let name = meta::text(&wanted, "name").to_owned();
    if wanted["kind"] == "ClusterRole" {
        let own = wanted.clone();
        return ensure(client, aggregation::at(&name), wanted, |found| reconcile::role(found, &own)).await;
    }
    let at = At { plural: "clusterrolebindings", group: GROUP, version: "v1", name: &name, ..At::default() };
    let found = or_gone(client.get(at).await)?;
    match found.map(|found| reconcile::binding(&found, &wanted)) {
        None => client.create(at, wanted).await.map(drop),
        Some(reconcile::Binding::Good) => Ok(()),
        Some(reconcile::Binding::Update(mended)) => client.update(at, mended).await.map(drop),
        Some(reconcile::Binding::Replace) => {
            client.delete(at, json!({})).await?;
            client.create(at, wanted).await.map(drop)
        }
    }
}

/// The Service `kubernetes` in `default`, and where it leads.
async fn kubernetes_service(client: &Client, address: IpAddr, port: u16) -> Result<(), Status> {
    let name = "kubernetes";
    let slices = At { group: "discovery.k8s.io", ..At::core("endpointslices", "default", name) };
    tokio::try_join!(
        ensure(client, At::core("services", "default", name), service(port), |_| None),
        ensure(client, At::core("endpoints", "default", name), endpoints(address, port), |found| {
            replaced(found, &endpoints(address, port), &["subsets"])
        }),
        ensure(client, slices, endpoint_slice(address, port), |found| {
            replaced(found, &endpoint_slice(address, port), &["endpoints", "ports"])
        }),
    )
    .map(drop)
}

/// What was found, with these fields as wanted; nothing if they are.
fn replaced(found: &Value, wanted: &Value, fields: &[&str]) -> Option<Value> {
    let mut mended = found.clone();
    for field in fields.iter().filter(|field| found[**field] != wanted[**field]) {
        mended[*field] = wanted[*field].clone();
    }
    (mended != *found).then_some(mended)
}

fn service(port: u16) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {
            "name": "kubernetes", "namespace": "default",
            "labels": {"component": "apiserver", "provider": "kubernetes"},
        },
        "spec": {
            "clusterIP": SERVICE_ADDRESS, "clusterIPs": [SERVICE_ADDRESS],
            "internalTrafficPolicy": "Cluster", "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack",
            "ports": [{"name": "https", "port": 443, "protocol": "TCP", "targetPort": port}],
            "sessionAffinity": "None", "type": "ClusterIP",
        },
    })
}

/// A server that only its own machine reaches has no address for others: none may be on the loopback.
fn endpoints(address: IpAddr, port: u16) -> Value {
    let mut endpoints = json!({
        "apiVersion": "v1", "kind": "Endpoints",
        "metadata": {
            "name": "kubernetes", "namespace": "default",
            "labels": {"endpointslice.kubernetes.io/skip-mirror": "true"},
        },
    });
    if !address.is_loopback() {
        endpoints["subsets"] = json!([{
            "addresses": [{"ip": address}],
            "ports": [{"name": "https", "port": port, "protocol": "TCP"}],
        }]);
    }
    endpoints
}

fn endpoint_slice(address: IpAddr, port: u16) -> Value {
    let endpoints = match address.is_loopback() {
        true => json!([]),
        false => json!([{"addresses": [address], "conditions": {"ready": true}}]),
    };
    json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": {
            "name": "kubernetes", "namespace": "default",
            "labels": {"kubernetes.io/service-name": "kubernetes"},
        },
        "addressType": if address.is_ipv4() { "IPv4" } else { "IPv6" },
        "endpoints": endpoints,
        "ports": [{"name": "https", "port": port, "protocol": "TCP"}],
    })
}
