//! What a fleet of clusters costs the product. `cargo xtask bench fleet` and `cargo xtask bench idle` run it.
//!
//! `fleet converge HERDSMAN CLUSTERS MACHINES` has the driver `sim` make so many clusters of so many machines, and tells how
//! long they took until all were ready, what the process took (machines included), and what was written to the API.
//! `fleet idle HERDSMAN CLUSTERS MACHINES` has them register from a process of their own, and tells what the server takes at rest.
//! Prints lines `measured <name> <value> <unit>`.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use clock::{Clock as _, SystemClock};
use kube::api::{Api, DynamicObject, ListParams, Patch, PatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Client, Config};
use serde_json::{Value, json};

const NAMESPACE: &str = "fleet-default";
const VERSION: &str = "v1.34.2+k3s1";
/// Between two looks at everything, at least.
const LOOK: Duration = Duration::from_secs(2);
/// A look at everything costs the server, too: so many times what it took passes until the next.
const LOOK_SHARE: u32 = 10;
/// No progress for so long is a failure. Many clusters come up side by side, and the first is ready late.
const PATIENCE: Duration = Duration::from_secs(1800);
/// What came late of making the clusters is over after so long; then rest is measured for as long.
const REST: Duration = Duration::from_secs(60);

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [what, herdsman, clusters, machines] = &arguments[..] else {
        bail!("usage: fleet converge|idle HERDSMAN CLUSTERS MACHINES");
    };
    let directory = tempfile::tempdir()?;
    let server = Server::start(herdsman.into(), directory.path().join("data")).await?;
    let fleet = Fleet { server, clusters: clusters.parse()?, machines: machines.parse()? };
    match what.as_str() {
        "converge" => fleet.converge().await,
        "idle" => fleet.idle().await,
        other => bail!("{other:?} is neither converge nor idle"),
    }
}

/// A process that ends with the value.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Process {
    /// Megabytes that it has now (`VmRSS`) or had at most (`VmHWM`).
    fn memory(&self, field: &str) -> anyhow::Result<f64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.0.id()))?;
        let line = status.lines().find(|line| line.starts_with(field)).context("no such field")?;
        let kib: f64 = line.split_whitespace().nth(1).context("no number")?.parse()?;
        Ok(kib * 1024.0 / 1e6)
    }

    /// Seconds that it has kept a core busy.
    fn busy(&self) -> anyhow::Result<f64> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.0.id()))?;
        let after = stat.rsplit(')').next().unwrap_or_default();
        let ticks = after.split_whitespace().skip(11).take(2).map(str::parse::<f64>);
        // Linux counts hundredths of a second here, on every machine.
        Ok(ticks.sum::<Result<f64, _>>()? / 100.0)
    }
}

/// `herdsman up` at work.
struct Server {
    herdsman: PathBuf,
    process: Process,
    kubeconfig: PathBuf,
    url: String,
    client: Client,
}

impl Server {
    async fn start(herdsman: PathBuf, data: PathBuf) -> anyhow::Result<Self> {
        let mut command = Command::new(&herdsman);
        command.args(["up", "--listen", "127.0.0.1:0", "--data-dir"]).arg(data).env("HERDSMAN_LOG", "error");
        let mut process = Process(command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?);
        let mut line = String::new();
        BufReader::new(process.0.stdout.take().context("no output")?).read_line(&mut line)?;
        let words: BTreeMap<&str, &str> =
            line.split_whitespace().filter_map(|word| word.split_once('=')).collect();
        let kubeconfig = PathBuf::from(words.get("kubeconfig").context("it does not start")?);
        let url = (*words.get("url").context("no URL")?).to_owned();
        let config = Config::from_custom_kubeconfig(
            Kubeconfig::read_from(&kubeconfig)?,
            &KubeConfigOptions::default(),
        )
        .await?;
        Ok(Server { herdsman, process, kubeconfig, url, client: Client::try_from(config)? })
    }

    fn api(&self, api_version: &str, kind: &str) -> Api<DynamicObject> {
        let (group, version) = api_version.rsplit_once('/').unwrap_or(("", api_version));
        let kind = GroupVersionKind::gvk(group, version, kind);
        let resource = ApiResource::from_gvk_with_plural(&kind, &format!("{}s", kind.kind.to_lowercase()));
        Api::namespaced_with(self.client.clone(), NAMESPACE, &resource)
    }

    async fn apply(&self, object: &Value) -> anyhow::Result<()> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let api = self.api(&text(&object["apiVersion"]), &text(&object["kind"]));
        api.patch(&text(&object["metadata"]["name"]), &PatchParams::apply("fleet"), &Patch::Apply(object))
            .await?;
        Ok(())
    }

    /// Writes by resource since the server started.
    async fn writes(&self) -> anyhow::Result<BTreeMap<String, f64>> {
        let text = self.client.request_text(http::Request::get("/metrics").body(Vec::new())?).await?;
        let mut writes = BTreeMap::new();
        for line in
            text.lines().filter_map(|line| line.strip_prefix("herdsman_apiserver_request_seconds_count{"))
        {
            let (labels, count) = line.split_once("} ").context("a metric without a value")?;
            let label =
                |name: &str| labels.split(',').find_map(|one| one.strip_prefix(name)?.strip_prefix("=\""));
            let verb = label("verb").unwrap_or_default().trim_end_matches('"');
            if ["create", "update", "patch", "apply", "delete"].contains(&verb) {
                let resource = label("resource").unwrap_or_default().trim_end_matches('"').to_owned();
                *writes.entry(resource).or_default() += count.parse::<f64>()?;
            }
        }
        Ok(writes)
    }
}

/// So many clusters of so many machines.
struct Fleet {
    server: Server,
    clusters: usize,
    machines: usize,
}

impl Fleet {
    /// Three servers, as people have them, where that leaves workers.
    fn servers(&self) -> usize {
        if self.machines >= 5 { 3 } else { 1 }
    }

    async fn converge(&self) -> anyhow::Result<()> {
        let began = SystemClock.monotonic();
        for number in 1..=self.clusters {
            for object in self.pooled(number) {
                self.server.apply(&object).await?;
            }
        }
        self.ready().await?;
        let took = SystemClock.monotonic().since(began);
        let all = (self.clusters * self.machines) as f64;
        println!("measured wall {:.1} s", took.as_secs_f64());
        println!("measured processor {:.1} s", self.server.process.busy()?);
        println!("measured memory {:.1} MB", self.server.process.memory("VmHWM:")?);
        let writes = self.server.writes().await?;
        println!("measured writes {:.1} per machine", writes.values().sum::<f64>() / all);
        let mut kinds: Vec<_> = writes.into_iter().collect();
        kinds.sort_by(|one, other| other.1.total_cmp(&one.1));
        for (kind, count) in kinds.iter().filter(|(_, count)| count / all >= 0.05) {
            println!("writes {kind} {:.2} per machine", count / all);
        }
        Ok(())
    }

    async fn idle(&self) -> anyhow::Result<()> {
        let mut sim = Command::new(&self.server.herdsman);
        sim.args(["sim", "--server", &self.server.url, "--machines", &self.machines.to_string()]);
        sim.args(["--servers", &self.servers().to_string()]);
        for number in 1..=self.clusters {
            self.server.apply(&self.custom(number)).await?;
        }
        for number in 1..=self.clusters {
            sim.args(["--token", &self.token(number).await?]);
        }
        let _machines =
            Process(sim.stdout(Stdio::null()).stderr(Stdio::null()).env("HERDSMAN_LOG", "error").spawn()?);
        self.ready().await?;
        tokio::time::sleep(REST).await;
        let (before, writes) = (self.server.process.busy()?, self.server.writes().await?);
        tokio::time::sleep(REST).await;
        let share = (self.server.process.busy()? - before) / REST.as_secs_f64() * 100.0;
        println!("measured processor {share:.2} %");
        println!("measured memory {:.1} MB", self.server.process.memory("VmRSS:")?);
        let count = |writes: &BTreeMap<String, f64>| writes.values().sum::<f64>();
        let written = count(&self.server.writes().await?) - count(&writes);
        println!("measured writes {:.2} per second", written / REST.as_secs_f64());
        Ok(())
    }

    /// A cluster whose machines the driver makes.
    fn pooled(&self, number: usize) -> [Value; 2] {
        let name = format!("fleet-{number}");
        let config = json!({
            "apiVersion": "rke-machine-config.cattle.io/v1", "kind": "SimConfig", "metadata": {"name": name},
        });
        let pool = |pool: &str, quantity: usize, roles: &[&str]| {
            let mut pool = json!({
                "name": pool, "quantity": quantity, "machineConfigRef": {"kind": "SimConfig", "name": name},
            });
            for role in roles {
                pool[role] = true.into();
            }
            pool
        };
        let pools = [
            pool("servers", self.servers(), &["etcdRole", "controlPlaneRole"]),
            pool("workers", self.machines - self.servers(), &["workerRole"]),
        ];
        let mut cluster = self.custom(number);
        cluster["spec"]["rkeConfig"] = json!({"machinePools": pools});
        [config, cluster]
    }

    /// A cluster whose machines register by themselves.
    fn custom(&self, number: usize) -> Value {
        json!({
            "apiVersion": "provisioning.cattle.io/v1", "kind": "Cluster",
            "metadata": {"name": format!("fleet-{number}")},
            "spec": {"kubernetesVersion": VERSION, "rkeConfig": {}},
        })
    }

    /// The token by which machines of a cluster register, once there is one.
    async fn token(&self, number: usize) -> anyhow::Result<String> {
        let began = SystemClock.monotonic();
        loop {
            let mut command = tokio::process::Command::new(&self.server.herdsman);
            command
                .args(["node-command", &format!("fleet-{number}")])
                .env("KUBECONFIG", &self.server.kubeconfig);
            let output = String::from_utf8(command.output().await?.stdout)?;
            let mut words = output.split_whitespace();
            if words.any(|word| word == "--token") {
                return words.next().map(str::to_owned).context("no token");
            }
            ensure!(SystemClock.monotonic().since(began) < PATIENCE, "there is no token");
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }

    /// Waits until all clusters are ready and all machines run.
    async fn ready(&self) -> anyhow::Result<()> {
        let (clusters, machines) = (
            self.server.api("provisioning.cattle.io/v1", "Cluster"),
            self.server.api("cluster.x-k8s.io/v1beta2", "Machine"),
        );
        let wanted = (self.clusters, self.clusters * self.machines);
        let mut last = (0, 0);
        let mut moved = SystemClock.monotonic();
        let mut pause = LOOK;
        while last != wanted {
            ensure!(
                SystemClock.monotonic().since(moved) < PATIENCE,
                "nothing moves any more: {last:?} of {wanted:?}"
            );
            tokio::time::sleep(pause).await;
            let looked = SystemClock.monotonic();
            let ready = |object: &&DynamicObject| object.data["status"]["ready"] == true;
            let runs = |object: &&DynamicObject| object.data["status"]["phase"] == "Running";
            let found = (
                clusters.list(&ListParams::default()).await?.items.iter().filter(ready).count(),
                machines.list(&ListParams::default()).await?.items.iter().filter(runs).count(),
            );
            pause = LOOK.max(SystemClock.monotonic().since(looked) * LOOK_SHARE);
            if found != last {
                (last, moved) = (found, SystemClock.monotonic());
                eprintln!(
                    "{} of {} clusters are ready, {} of {} machines run",
                    last.0, wanted.0, last.1, wanted.1
                );
            }
        }
        Ok(())
    }
}
