//! The same random applies, updates and patches on a real server and on ours: the same objects, the same managed fields.

use std::ops::RangeInclusive;

use anyhow::{Result, bail, ensure};
use futures_util::{StreamExt, stream};
use serde_json::{Value, json};
use suites::apply::compare::{Outcome, compare};
use suites::apply::draw::Draw;
use suites::apply::kinds::{self, Kind};
use suites::apply::{Objects, Step, step};
use suites::client::{Server, Session};
use suites::kubeconfig::Kubeconfig;
use suites::target::{self, Target};

/// How many objects of each kind with each seed.
const OBJECTS: u64 = 8;
/// How many that differ are shown.
const SHOWN: usize = 5;
/// How many steps at most with each.
const STEPS: u32 = 16;
/// How many objects are written at the same time.
const SIDE_BY_SIDE: usize = 8;
/// How many steps have to be compared with each seed for the suite to say anything.
const LEAST: usize = 100;
/// Which seeds, unless `APPLY_SEEDS` says how many (`50`) or which (`7-9`).
const SEEDS: RangeInclusive<u64> = 1..=3;

#[tokio::test(flavor = "multi_thread")]
#[ignore = "peers: kubernetes, etcd"]
async fn both_servers_apply_alike() -> Result<()> {
    if peers::skip("apply") {
        return Ok(());
    }
    let seeds = seeds()?;
    let [theirs, ours] = [target::Kind::Kubernetes, target::Kind::Herdsman];
    let (theirs, ours) = (started(theirs).await?, started(ours).await?);
    let sessions = [session(&theirs)?, session(&ours)?];
    for one in &sessions {
        define(one).await?;
    }
    let walks = seeds.clone().flat_map(|seed| {
        let kinds = (0..).zip(&kinds::ALL);
        kinds.flat_map(move |(index, kind)| (0..OBJECTS).map(move |object| (seed, index, kind, object)))
    });
    let mut walks = stream::iter(walks)
        .map(|(seed, index, kind, object)| {
            let draw = Draw::new(seed * 1_000_000 + index * 1_000 + object);
            walk(&sessions, kind, draw, format!("s{seed}-o{object}"))
        })
        .buffer_unordered(SIDE_BY_SIDE);
    let (mut sequences, mut compared, mut parted, mut wrong) = (0, 0, 0, Vec::new());
    while let Some(walked) = walks.next().await {
        let walked = walked?;
        sequences += 1;
        compared += walked.alike;
        parted += walked.parted;
        wrong.extend(walked.different);
    }
    println!("{sequences} sequences: {compared} steps alike, {parted} differ on purpose (seeds {seeds:?})");
    let first = wrong.iter().take(SHOWN).cloned().collect::<Vec<_>>().join("\n\n");
    ensure!(wrong.is_empty(), "{} of {sequences} objects differ:\n{first}", wrong.len());
    let least = LEAST * seeds.count();
    ensure!(compared >= least, "only {compared} steps");
    Ok(())
}

fn seeds() -> Result<RangeInclusive<u64>> {
    let Ok(wanted) = std::env::var("APPLY_SEEDS") else { return Ok(SEEDS) };
    Ok(match wanted.split_once('-') {
        Some((first, last)) => first.parse()?..=last.parse()?,
        None => 1..=wanted.parse()?,
    })
}

/// What two servers did with an object.
#[derive(Default)]
struct Walked {
    /// So many steps were alike.
    alike: usize,
    /// So often they differed on purpose.
    parted: usize,
    /// How they differed that should not.
    different: Option<String>,
}

/// Takes random steps with an object until it differs. Where it does on purpose, it begins again with a new one.
async fn walk(sessions: &[Session; 2], kind: &Kind, mut draw: Draw, name: String) -> Result<Walked> {
    let both = sessions.each_ref().map(|session| Objects::new(session, kind));
    let (mut walked, mut exists, mut done) = (Walked::default(), false, Vec::new());
    for _ in 0..4 + draw.below(STEPS - 4) {
        let step = step(kind, &mut draw, exists);
        let (answer, object, outcome) = took(&both, &step, &name).await?;
        done.push(format!("{answer} {step:?}"));
        match outcome {
            Outcome::Same => {
                walked.alike += 1;
                exists |= object == 200;
            }
            Outcome::Parted => {
                walked.parted += 1;
                exists = false;
                done.clear();
                for one in &both {
                    one.delete(&name).await?;
                }
            }
            Outcome::Different(how) => {
                walked.different = Some(format!("{} {name}:\n{}\n{how}", kind.kind, done.join("\n")));
                break;
            }
        }
    }
    Ok(walked)
}

/// Takes a step on both servers and compares the answers, and the objects then. Gives the real one's codes of both.
async fn took(both: &[Objects<'_>; 2], step: &Step, name: &str) -> Result<(u16, u16, Outcome)> {
    let [theirs, ours] = both;
    let answers = [theirs.take(step, name).await?, ours.take(step, name).await?];
    let objects = [theirs.get(step.version, name).await?, ours.get(step.version, name).await?];
    let outcome = match compare(&answers[0], &answers[1]) {
        Outcome::Same => compare(&objects[0], &objects[1]),
        other => other,
    };
    Ok((answers[0].0, objects[0].0, outcome))
}

async fn started(kind: target::Kind) -> Result<Target> {
    tokio::task::spawn_blocking(move || Target::start(kind)).await?
}

fn session(target: &Target) -> Result<Session> {
    Ok(Session::new(Server::new(&Kubeconfig::read(target.kubeconfig())?)?))
}

/// Defines Widgets and waits until they are served.
async fn define(session: &Session) -> Result<()> {
    let widgets = &kinds::ALL[2];
    let objects = Objects::new(session, widgets);
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let (code, answer) = objects.ask("POST", path, "application/json", &kinds::definition()).await?;
    ensure!(code == 201, "{answer}");
    for _ in 0..100 {
        let probe = json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "probe"}});
        let all = format!("{}?dryRun=All", widgets.path("example.com/v1"));
        match objects.ask("POST", &all, "application/json", &probe).await {
            Ok((201, _)) => {
                let beta = widgets.path("example.com/v1beta1");
                ensure!(objects.ask("GET", &beta, "application/json", &Value::Null).await?.0 == 200);
                return Ok(());
            }
            // Until it is served there is not even a Status.
            Ok(_) | Err(_) => tokio::time::sleep(std::time::Duration::from_millis(100)).await,
        }
    }
    bail!("Widgets are not served")
}
