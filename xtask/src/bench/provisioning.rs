//! From `kubectl apply` of a cluster with three pools of three simulated machines to nine agents that have registered, beside what
//! the simulation itself takes its time for.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, bail};
use clock::{Clock as _, SystemClock};
use peers::Peer;
use serde_json::{Value, json};

use super::Effort;
use super::figure::{Bar, Figure};
use crate::run::{measured_programs, program, succeed, target};

const NAMESPACE: &str = "fleet-default";
const POOLS: [(&str, &[&str]); 3] =
    [("servers", &["etcdRole", "controlPlaneRole"]), ("workers", &["workerRole"]), ("more", &["workerRole"])];
const MACHINES_EACH: usize = 3;
/// What a simulated machine takes from the order to its first program (`sim::Delays::default`): making it, booting it. All of them
/// do so at the same time.
const SIMULATED: Duration = Duration::from_millis(500);
/// What kubectl takes at most until it watches.
const LOOKS_ON: Duration = Duration::from_secs(2);

pub(crate) fn run(effort: Effort) -> anyhow::Result<Vec<Figure>> {
    let server = Server::start(&measured_programs()?.join("herdsman"))?;
    let rounds = if effort == Effort::Quick { 1 } else { 5 };
    let mut times = Vec::new();
    for round in 0..rounds {
        let time = server.registered(&format!("bench-{round}"))?;
        println!("nine agents registered after {:.3} s", time.as_secs_f64());
        times.push(time);
    }
    times.sort();
    let overhead = times[times.len() / 2].saturating_sub(SIMULATED);
    Ok(vec![Figure {
        name: "provisioning_overhead".into(),
        value: overhead.as_secs_f64(),
        unit: "s",
        bar: Bar::AtMost(1.0),
    }])
}

/// `herdsman up` in a directory of its own; ended with it.
struct Server {
    process: Child,
    kubectl: PathBuf,
    kubeconfig: String,
    directory: PathBuf,
}

impl Server {
    fn start(binary: &Path) -> anyhow::Result<Self> {
        let kubectl = Peer::Kubernetes.provide()?.path.join("kubectl");
        let directory = target().join("bench-provisioning");
        let _ = std::fs::remove_dir_all(&directory);
        let mut command = program(binary);
        command
            .args(["up", "--listen", "127.0.0.1:0", "--data-dir"])
            .arg(&directory)
            .env("HERDSMAN_LOG", "error");
        let mut process = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
        let mut line = String::new();
        let stdout = process.stdout.take().context("no output")?;
        let mut server = Server { process, kubectl, kubeconfig: String::new(), directory };
        BufReader::new(stdout).read_line(&mut line)?;
        let word = line.split_whitespace().find_map(|word| word.strip_prefix("kubeconfig="));
        server.kubeconfig = word.with_context(|| format!("herdsman up says {line:?}"))?.to_owned();
        Ok(server)
    }

    fn kubectl(&self, words: &[&str]) -> Command {
        let mut command = program(&self.kubectl);
        command.args(["--kubeconfig", &self.kubeconfig, "--namespace", NAMESPACE]).args(words);
        command
    }

    /// How long it takes until all machines of a new cluster have registered. The cluster is gone afterwards.
    fn registered(&self, cluster: &str) -> anyhow::Result<Duration> {
        let selector = format!("cluster.x-k8s.io/cluster-name={cluster}");
        let columns = r#"-ojsonpath={.metadata.name} {.metadata.labels.rke\.cattle\.io/machine-id}{"\n"}"#;
        let kind = "machines.v1beta2.cluster.x-k8s.io";
        let mut watch = self.kubectl(&["get", kind, "--selector", &selector, "--watch", columns]);
        let mut watch = Ended(watch.stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?);
        let seen = watch.0.stdout.take().context("no output")?;
        let objects = manifest(cluster).to_string();
        // The program that looks on is not what is measured: it has started by then.
        std::thread::sleep(LOOKS_ON);
        let begun = SystemClock.monotonic();
        let mut apply =
            self.kubectl(&["apply", "-f", "-"]).stdin(Stdio::piped()).stdout(Stdio::null()).spawn()?;
        apply.stdin.take().context("no input")?.write_all(objects.as_bytes())?;
        if !apply.wait()?.success() {
            bail!("kubectl apply failed");
        }
        until_all(seen, POOLS.len() * MACHINES_EACH)?;
        let time = SystemClock.monotonic().since(begun);
        let kind = "clusters.provisioning.cattle.io";
        succeed(self.kubectl(&["delete", kind, cluster, "--timeout", "300s"]).stdout(Stdio::null()))?;
        Ok(time)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

/// A process that ends with its holder.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Reads `<machine> <id>` until so many machines have an id.
fn until_all(seen: ChildStdout, machines: usize) -> anyhow::Result<()> {
    let mut registered = BTreeSet::new();
    for line in BufReader::new(seen).lines() {
        if let [machine, _] = line?.split_whitespace().collect::<Vec<_>>()[..] {
            registered.insert(machine.to_owned());
        }
        if registered.len() == machines {
            return Ok(());
        }
    }
    bail!("the watch ended when {} of {machines} machines had registered", registered.len())
}

fn manifest(cluster: &str) -> Value {
    let config = |pool: &str| format!("{cluster}-{pool}");
    let mut items: Vec<Value> = Vec::new();
    let mut pools: Vec<Value> = Vec::new();
    for (name, roles) in POOLS {
        items.push(json!({
            "apiVersion": "rke-machine-config.cattle.io/v1", "kind": "SimConfig",
            "metadata": {"name": config(name), "namespace": NAMESPACE},
        }));
        let mut pool = json!({
            "name": name, "quantity": MACHINES_EACH, "machineConfigRef": {"kind": "SimConfig", "name": config(name)},
        });
        roles.iter().for_each(|role| pool[*role] = true.into());
        pools.push(pool);
    }
    items.push(json!({
        "apiVersion": "provisioning.cattle.io/v1", "kind": "Cluster",
        "metadata": {"name": cluster, "namespace": NAMESPACE},
        "spec": {"kubernetesVersion": "v1.34.2+k3s1", "rkeConfig": {"machinePools": pools}},
    }));
    json!({"apiVersion": "v1", "kind": "List", "items": items})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_pools_of_three() {
        let manifest = manifest("c");
        let cluster = &manifest["items"][3];
        let pools = cluster["spec"]["rkeConfig"]["machinePools"].as_array().unwrap();
        assert_eq!(pools.len(), 3);
        assert_eq!(pools[0]["machineConfigRef"]["name"], "c-servers");
        assert_eq!((&pools[0]["etcdRole"], &pools[1]["etcdRole"]), (&json!(true), &Value::Null));
    }
}
