//! What many machines cost: `machines [COUNT] [PER-CLUSTER]` makes them in one process, on one thread, in simulated time, in
//! clusters of one server each, and says how much memory and time they took until every node was ready, and in ten minutes at rest.

#![expect(clippy::unwrap_used, reason = "a measurement that cannot go on ends")]

#[expect(dead_code, reason = "tests ask more of it")]
#[path = "../tests/machines/management.rs"]
mod management;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use api::catalogue::labels;
use api::rke::v1::RKEControlPlaneSpec;
use clock::{Clock, RuntimeClock, SystemClock};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, ObjectMeta, PostParams};
use plan::orchestrator::{self, Terms};
use planner::{Bootstrap, Cluster, Epoch, Machine, Placement, Tokens, Version, render};
use sim::{CreateOptions, Delays, Registration, Settings, Stores, World};

use management::{Management, NAMESPACE, URL};

const VERSION: &str = "v1.34.2+k3s1";

fn main() {
    let number = |index: usize, default: u32| {
        std::env::args().nth(index).map_or(default, |text| text.parse().expect("a number"))
    };
    let (count, per_cluster) = (number(1, 1000), number(2, 100));
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    runtime.block_on(run(count, per_cluster));
}

async fn run(count: u32, per_cluster: u32) {
    let clock: Arc<dyn Clock> = Arc::new(RuntimeClock::starting_at(SystemClock.now()));
    let management = Management::start(&clock, 1).await;
    let directory = tempfile::tempdir().unwrap();
    let settings = Settings {
        directory: directory.path().to_owned(),
        seed: 1,
        clock: clock.clone(),
        uplink: Arc::new(management.clone()),
        delays: Delays::default(),
        stores: Stores::Memory,
    };
    let world = World::open(settings).await.unwrap();
    let (before, began) = (resident(), busy());
    for number in 0..count {
        let (cluster, place) = (number / per_cluster, number % per_cluster);
        let name = format!("c{cluster}-m{place}");
        let server = match place {
            0 => None,
            _ => {
                world.machines().addresses(&format!("c{cluster}-m0")).map(|found| found.internal.to_string())
            }
        };
        deliver(&management, cluster, &name, server, clock.now()).await;
        let registration =
            Registration { server: URL.into(), token: format!("token-of-{name}"), ..Registration::default() };
        let delays = Delays { create: Duration::from_millis(10), ..Delays::default() };
        let options = CreateOptions {
            script: Some(registration.script()),
            delays: Some(delays),
            ..CreateOptions::default()
        };
        world.machines().create(&name, options).await.unwrap();
    }
    let registered = || world.events().iter().filter(|event| event.what.contains(" registers")).count();
    while registered() < count as usize {
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    tokio::time::sleep(Duration::from_secs(60)).await;
    let took = busy() - began;
    let each = (resident() - before) / u64::from(count);
    println!("{count} machines in {} clusters: ready after {took:.1} s of a core", world.clusters().len());
    println!(
        "figure sim-memory value={each} KiB/machine bar=<=400 {}",
        if each <= 400 { "ok" } else { "short" }
    );
    let began = busy();
    tokio::time::sleep(Duration::from_secs(600)).await;
    let share = (busy() - began) / 600.0 * 100.0;
    println!(
        "figure sim-rest value={share:.2} %-of-a-core bar=<=100 {}",
        if share <= 100.0 { "ok" } else { "short" }
    );
    world.stop().await;
}

/// The Secret of a machine, with its plan in it.
async fn deliver(
    management: &Management,
    cluster: u32,
    name: &str,
    server: Option<String>,
    now: jiff::Timestamp,
) {
    let role =
        if server.is_none() { [labels::ETCD_ROLE, labels::CONTROL_PLANE_ROLE].as_slice() } else { &[] };
    let mut words: BTreeMap<String, String> = role
        .iter()
        .chain(&[labels::WORKER_ROLE])
        .map(|label| ((*label).to_owned(), "true".to_owned()))
        .collect();
    words.insert(labels::MACHINE_NAME.to_owned(), name.to_owned());
    let spec = RKEControlPlaneSpec {
        kubernetes_version: VERSION.into(),
        cluster_name: format!("c{cluster}"),
        ..RKEControlPlaneSpec::default()
    };
    let tokens = Tokens { server: format!("server-{cluster}"), agent: format!("agent-{cluster}") };
    let of = Cluster { name: format!("c{cluster}"), spec, tokens: Some(tokens), ..Cluster::default() };
    let bootstrap = Bootstrap { labels: words.clone(), ..Bootstrap::default() };
    let machine =
        Machine { id: format!("uid-{name}"), labels: words.clone(), bootstrap, ..Machine::default() };
    let url = server.as_ref().map(|address| format!("https://{address}:6443"));
    let placement = Placement { init: server.is_none(), server: url, fresh: server.is_none() };
    let version: Version = VERSION.parse().unwrap();
    let rendered = render(Epoch::NEWEST, &of, &version, &name.into(), &machine, &placement).unwrap();
    let update = orchestrator::deliver(&BTreeMap::new(), &rendered.document, Terms::default(), now).unwrap();
    let data = update.data.into_iter().filter_map(|(key, value)| Some((key.to_owned(), ByteString(value?))));
    let secret = Secret {
        metadata: ObjectMeta {
            name: Some(format!("{name}-plan")),
            labels: Some(words),
            ..ObjectMeta::default()
        },
        data: Some(data.collect()),
        ..Secret::default()
    };
    let secrets: Api<Secret> = Api::namespaced(management.client(), NAMESPACE);
    secrets.create(&PostParams::default(), &secret).await.unwrap();
}

/// Seconds that this process has kept a core busy.
fn busy() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let after = stat.rsplit(')').next().unwrap();
    let ticks = after.split_whitespace().skip(11).take(2).map(|text| text.parse::<f64>().unwrap());
    // Linux counts hundredths of a second here, on every machine.
    ticks.sum::<f64>() / 100.0
}

/// Resident memory of this process in KiB.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}
