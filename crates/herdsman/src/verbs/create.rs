//! `herdsman create cluster`: a Cluster and the configs of its pools, from a few words.

use anyhow::{Context as _, bail};
use api::machine::{CONFIG_GROUP, Driver, VERSION};
use kit::KindId;
use kube::api::{Api, DynamicObject, Patch, PatchParams};
use serde_json::{Map, Value, json};

use super::ask::{Ask, MANAGER, explained};
use super::follow;
use super::output::{self, Format};
use super::pool::Pool;
use super::target::{Target, block_on};

/// The version of clusters that name none.
pub(crate) const VERSION_BY_DEFAULT: &str = "v1.34.2+k3s1";

/// What can be made.
#[derive(Debug, clap::Subcommand)]
pub(crate) enum What {
    /// A cluster
    Cluster(Box<Arguments>),
}

/// What can be said of a cluster.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// What it is called
    name: String,
    /// The distribution and its version; it ends in k3sN or rke2rN
    #[arg(long, value_name = "VERSION", default_value = VERSION_BY_DEFAULT)]
    kubernetes_version: String,
    /// A pool of machines: NAME:NUMBER:ROLES, such as servers:3:etcd,control-plane or all:1:all; may be repeated.
    /// Without any, machines register by themselves
    #[arg(long, value_name = "POOL")]
    pool: Vec<Pool>,
    /// The driver that makes machines
    #[arg(long, default_value = "sim")]
    driver: String,
    /// A field of the driver: KEY=VALUE, or POOL/KEY=VALUE for one pool; may be repeated
    #[arg(long, value_name = "KEY=VALUE")]
    driver_option: Vec<String>,
    /// The Secret with the cloud's credentials, NAMESPACE:NAME
    #[arg(long, value_name = "SECRET")]
    cloud_credential: Option<String>,
    /// A field of spec.rkeConfig.machineGlobalConfig: KEY=VALUE; may be repeated
    #[arg(long, value_name = "KEY=VALUE")]
    config: Vec<String>,
    /// Only print the objects
    #[arg(long)]
    dry_run: bool,
    /// How to print them
    #[arg(long, short, value_name = "FORMAT", default_value = "yaml")]
    output: Format,
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    wait: follow::Wait,
}

/// Makes it, or prints what would be made.
pub(crate) fn run(what: &What) -> anyhow::Result<()> {
    let What::Cluster(arguments) = what;
    let objects = objects(arguments)?;
    if arguments.dry_run {
        let documents = objects.iter().map(|one| output::document(one, arguments.output));
        let separator = if arguments.output == Format::Json { "" } else { "---\n" };
        return output::print(&documents.collect::<anyhow::Result<Vec<_>>>()?.join(separator));
    }
    block_on(async {
        let ask = Ask::new(&arguments.target).await?;
        make(&ask, &objects).await?;
        println!("cluster/{} created", arguments.name);
        arguments.wait.follow(&ask, &arguments.name).await
    })
}

/// Makes objects, the cluster last. A cluster that is there already is not changed; if one is refused, nothing is made.
pub(crate) async fn make(ask: &Ask, objects: &[Value]) -> anyhow::Result<()> {
    if let Some(cluster) = objects.last() {
        let (api, name) = place(ask, cluster);
        if api.get_opt(name).await.map_err(explained)?.is_some() {
            bail!("there is a cluster {name:?} already: `herdsman get cluster {name}`");
        }
        let asked = PatchParams::apply(MANAGER).dry_run();
        api.patch(name, &asked, &Patch::Apply(cluster)).await.map_err(explained)?;
    }
    for object in objects {
        let (api, name) = place(ask, object);
        let kind = object["kind"].as_str().unwrap_or_default();
        let made = api.patch(name, &PatchParams::apply(MANAGER), &Patch::Apply(object)).await;
        if let Err(kube::Error::Api(status)) = &made
            && status.code == 404
        {
            bail!("the server has no kind {kind}: is its driver active? `herdsman get drivers` lists them");
        }
        made.map_err(explained)?;
    }
    Ok(())
}

/// Where an object is, and its name.
fn place<'a>(ask: &Ask, object: &'a Value) -> (Api<DynamicObject>, &'a str) {
    let kind = object["kind"].as_str().unwrap_or_default();
    let (group, version) =
        object["apiVersion"].as_str().and_then(|text| text.split_once('/')).unwrap_or_default();
    let id = KindId::new(group, version, kind, &format!("{}s", kind.to_lowercase()));
    (ask.api(&id, true), object["metadata"]["name"].as_str().unwrap_or_default())
}

/// What these words after `herdsman` ask for.
pub(crate) fn objects_of(words: &[&str]) -> anyhow::Result<Vec<Value>> {
    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        arguments: Arguments,
    }
    objects(&<Line as clap::Parser>::try_parse_from(words)?.arguments)
}

/// What a cluster is made of, the cluster itself last.
fn objects(arguments: &Arguments) -> anyhow::Result<Vec<Value>> {
    let Some(driver) = Driver::named(&arguments.driver) else { bail!("--driver: a driver has a name") };
    let namespace = &arguments.target.namespace;
    let name = &arguments.name;
    let mut objects = Vec::new();
    let mut pools = Vec::new();
    for pool in &arguments.pool {
        let config = format!("{name}-{}", pool.name);
        let mut object = json!({
            "apiVersion": format!("{CONFIG_GROUP}/{VERSION}"),
            "kind": driver.config_kind(),
            "metadata": {"namespace": namespace, "name": config},
        });
        for (key, value) in options(&arguments.driver_option, &pool.name)? {
            object[key] = value;
        }
        objects.push(object);
        pools.push(pool.document(&driver.config_kind(), &config));
    }
    let mut spec = json!({"kubernetesVersion": arguments.kubernetes_version, "rkeConfig": {}});
    if !pools.is_empty() {
        spec["rkeConfig"]["machinePools"] = pools.into();
    }
    if !arguments.config.is_empty() {
        let fields = arguments.config.iter().map(|one| setting(one, "--config"));
        spec["rkeConfig"]["machineGlobalConfig"] = fields.collect::<anyhow::Result<Map<_, _>>>()?.into();
    }
    if let Some(credential) = &arguments.cloud_credential {
        spec["cloudCredentialSecretName"] = credential.as_str().into();
    }
    objects.push(json!({
        "apiVersion": "provisioning.cattle.io/v1", "kind": "Cluster",
        "metadata": {"namespace": namespace, "name": name},
        "spec": spec,
    }));
    Ok(objects)
}

/// The driver's fields for a pool; those of the pool itself win.
fn options(said: &[String], pool: &str) -> anyhow::Result<Map<String, Value>> {
    let mut fields = Map::new();
    let mut own = Map::new();
    for one in said {
        let (key, value) = setting(one, "--driver-option")?;
        match key.split_once('/') {
            None => drop(fields.insert(key, value)),
            Some((of, key)) if of == pool => drop(own.insert(key.into(), value)),
            Some(_) => {}
        }
    }
    fields.extend(own);
    Ok(fields)
}

/// `KEY=VALUE`; the value is JSON if it can be, else text.
fn setting(text: &str, flag: &str) -> anyhow::Result<(String, Value)> {
    let (key, value) =
        text.split_once('=').with_context(|| format!("{flag}: {text:?} is not of the form KEY=VALUE"))?;
    let value = serde_json::from_str(value).unwrap_or_else(|_| value.into());
    Ok((key.to_owned(), value))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(words: &[&str]) -> anyhow::Result<Vec<Value>> {
        objects_of(&[&["x"], words].concat())
    }

    #[test]
    fn a_cluster_of_pools() {
        let words = [
            "c",
            "--pool",
            "s:3:etcd,control-plane",
            "--pool",
            "w:2:worker",
            "--driver-option",
            "w/memory=4096",
            "--config",
            "cni=calico",
        ];
        let objects = made(&words).unwrap();
        assert_eq!(objects[1]["kind"], "SimConfig");
        assert_eq!(objects[1]["metadata"], json!({"namespace": "fleet-default", "name": "c-w"}));
        assert_eq!((&objects[0]["memory"], &objects[1]["memory"]), (&Value::Null, &json!(4096)));
        let config = &objects[2]["spec"]["rkeConfig"];
        assert_eq!(config["machineGlobalConfig"], json!({"cni": "calico"}));
        assert_eq!(
            config["machinePools"][0],
            json!({"name": "s", "quantity": 3, "etcdRole": true, "controlPlaneRole": true,
                "machineConfigRef": {"kind": "SimConfig", "name": "c-s"}})
        );
    }

    #[test]
    fn wrong_words_are_told() {
        assert!(made(&["c", "--pool", "s:x:all"]).unwrap_err().to_string().contains("NUMBER"));
        assert!(
            made(&["c", "--pool", "s:1:workr"]).unwrap_err().to_string().contains("did you mean \"worker\"")
        );
        assert!(made(&["c", "--config", "x"]).unwrap_err().to_string().contains("KEY=VALUE"));
    }
}
