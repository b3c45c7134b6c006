//! `herdsman scale`: how many machines a pool has.

use anyhow::bail;
use serde_json::{Value, json};

use super::ask::Ask;
use super::follow;
use super::kinds::{self, nearest};
use super::target::{self, Target, block_on};

/// What can be said on the command line.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Which cluster: NAME or cluster/NAME
    #[arg(value_parser = target::cluster)]
    cluster: String,
    /// Which pool; may be left out if there is one
    #[arg(long)]
    pool: Option<String>,
    /// How many machines
    #[arg(long, value_name = "NUMBER")]
    replicas: u32,
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    wait: follow::Wait,
}

/// Writes the number.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    block_on(async {
        let ask = Ask::new(&arguments.target).await?;
        let word = kinds::find("cluster")?;
        let change = |cluster: &Value| patch(cluster, arguments.pool.as_deref(), arguments.replicas);
        ask.edit(word, &arguments.cluster, change).await?;
        println!("cluster/{} scaled", arguments.cluster);
        arguments.wait.follow(&ask, &arguments.cluster).await
    })
}

/// The change of a cluster, if it is still as it was seen.
fn patch(cluster: &Value, pool: Option<&str>, replicas: u32) -> anyhow::Result<Value> {
    let mut pools = cluster["spec"]["rkeConfig"]["machinePools"].as_array().cloned().unwrap_or_default();
    let names: Vec<String> =
        pools.iter().map(|one| one["name"].as_str().unwrap_or_default().to_owned()).collect();
    let at = match pool {
        None if names.len() == 1 => 0,
        None if names.is_empty() => bail!("the cluster has no pools: its machines register by themselves"),
        None => bail!("which pool? --pool takes one of: {}", names.join(", ")),
        Some(pool) => match names.iter().position(|one| one == pool) {
            Some(at) => at,
            None => {
                let near = nearest(pool, names.iter().map(String::as_str));
                let hint = near.map(|near| format!("did you mean {near:?}? ")).unwrap_or_default();
                bail!("there is no pool {pool:?}; {hint}there are: {}", names.join(", "))
            }
        },
    };
    pools[at]["quantity"] = replicas.into();
    Ok(json!({
        "metadata": {"resourceVersion": cluster["metadata"]["resourceVersion"]},
        "spec": {"rkeConfig": {"machinePools": pools}},
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_pool_is_changed_and_the_others_stay() {
        let cluster = json!({"metadata": {"resourceVersion": "7"}, "spec": {"rkeConfig": {"machinePools": [
            {"name": "servers", "quantity": 1, "other": true}, {"name": "workers", "quantity": 2}]}}});
        let change = patch(&cluster, Some("workers"), 5).unwrap();
        let pools = &change["spec"]["rkeConfig"]["machinePools"];
        assert_eq!(pools[0], json!({"name": "servers", "quantity": 1, "other": true}));
        assert_eq!(pools[1]["quantity"], 5);
        assert_eq!(change["metadata"]["resourceVersion"], "7");
        assert!(patch(&cluster, None, 1).unwrap_err().to_string().contains("servers, workers"));
        assert!(
            patch(&cluster, Some("worker"), 1).unwrap_err().to_string().contains("did you mean \"workers\"")
        );
    }
}
