//! The same documents from a real server, without what we do not serve.

mod peer;
mod schemas;

use anyhow::{Context, Result, ensure};
use apiserver::registry::Registry;
use serde_json::Value;

use crate::support::{discovered, registry};
use peer::Peer;

const V2: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

#[tokio::test]
#[ignore = "peers: kubernetes, etcd"]
async fn documents_are_those_of_a_real_server() -> Result<()> {
    if peers::skip("discovery") {
        return Ok(());
    }
    let registry = registry().await;
    let peer = Peer::start().await?;
    let mut wrong = Vec::new();
    groups(&registry, &peer, &mut wrong).await?;
    resources(&registry, &peer, &mut wrong).await?;
    aggregated(&registry, &peer, &mut wrong).await?;
    schemas::v3(&registry, &peer, &mut wrong).await?;
    schemas::v2(&registry, &peer, &mut wrong).await?;
    ensure!(wrong.is_empty(), "{} differences:\n{}", wrong.len(), wrong.join("\n"));
    Ok(())
}

fn compare(what: &str, ours: &Value, theirs: &Value, wrong: &mut Vec<String>) {
    if ours != theirs {
        wrong.push(format!("{what}\n  ours   {ours}\n  theirs {theirs}"));
    }
}

fn items(list: &Value) -> &[Value] {
    list.as_array().map(Vec::as_slice).unwrap_or_default()
}

/// The items of their list that ours has too, by a key.
fn shared(ours: &Value, theirs: &Value, key: fn(&Value) -> &Value) -> Value {
    let known = |one: &&Value| items(ours).iter().any(|our| key(our) == key(one));
    items(theirs).iter().filter(known).cloned().collect()
}

async fn groups(registry: &Registry, peer: &Peer, wrong: &mut Vec<String>) -> Result<()> {
    let ours = discovered(registry, "/apis", "");
    let theirs = peer.json("/apis", "application/json").await?;
    let theirs = shared(&ours["groups"], &theirs["groups"], |group| &group["name"]);
    compare("/apis", &ours["groups"], &theirs, wrong);
    for group in items(&theirs) {
        let path = format!("/apis/{}", group["name"].as_str().context("a name")?);
        compare(&path, &discovered(registry, &path, ""), &peer.json(&path, "").await?, wrong);
    }
    Ok(())
}

async fn resources(registry: &Registry, peer: &Peer, wrong: &mut Vec<String>) -> Result<()> {
    let ours = discovered(registry, "/apis", "");
    let versions = items(&ours["groups"]).iter().flat_map(|group| items(&group["versions"]));
    let paths = versions.filter_map(|one| Some(format!("/apis/{}", one["groupVersion"].as_str()?)));
    for path in paths.chain(["/api/v1".to_owned()]) {
        let ours = discovered(registry, &path, "");
        let mut theirs = peer.json(&path, "").await?;
        theirs["resources"] = shared(&ours["resources"], &theirs["resources"], |one| &one["name"]);
        // Theirs come in the order of a map where definitions share a version.
        if let Some(list) = theirs["resources"].as_array_mut().filter(|_| path.contains("example.com")) {
            list.sort_by_key(|one| {
                one["name"].as_str().map(|name| name.split('/').next().map(str::to_owned))
            });
        }
        compare(&path, &ours, &theirs, wrong);
    }
    Ok(())
}

async fn aggregated(registry: &Registry, peer: &Peer, wrong: &mut Vec<String>) -> Result<()> {
    for path in ["/api", "/apis"] {
        let ours = discovered(registry, path, V2);
        let mut theirs = peer.json(path, V2).await?;
        theirs["items"] = shared(&ours["items"], &theirs["items"], |one| &one["metadata"]["name"]);
        for (group, ours) in theirs["items"].as_array_mut().into_iter().flatten().zip(items(&ours["items"])) {
            group["versions"] = shared(&ours["versions"], &group["versions"], |one| &one["version"]);
            for (version, ours) in
                group["versions"].as_array_mut().into_iter().flatten().zip(items(&ours["versions"]))
            {
                version["resources"] =
                    shared(&ours["resources"], &version["resources"], |one| &one["resource"]);
                for (one, ours) in
                    version["resources"].as_array_mut().into_iter().flatten().zip(items(&ours["resources"]))
                {
                    let kept = shared(&ours["subresources"], &one["subresources"], |one| &one["subresource"]);
                    match items(&kept).is_empty() {
                        true => one.as_object_mut().and_then(|one| one.remove("subresources")),
                        false => Some(std::mem::replace(&mut one["subresources"], kept)),
                    };
                }
            }
        }
        compare(&format!("{path} aggregated"), &ours, &theirs, wrong);
    }
    Ok(())
}
