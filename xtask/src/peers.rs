//! `cargo xtask peers`: get the real programs that tests run against.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, bail};
use peers::Peer;
use peers::availability::on_ci;

/// Peers that are got at a time: while one is downloaded or linked, which takes one core, another is compiled.
const SIDE_BY_SIDE: usize = 2;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Only these.
    names: Vec<String>,
}

pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<()> {
    if arguments.names.is_empty() {
        return provide(&Peer::ALL, Named::All);
    }
    let named = |name: &String| {
        Peer::by_name(name).with_context(|| format!("there is no peer {name}; there are: {}", names()))
    };
    provide(&arguments.names.iter().map(named).collect::<anyhow::Result<Vec<_>>>()?, Named::All)
}

fn names() -> String {
    Peer::ALL.map(Peer::name).join(", ")
}

/// Which peers are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Named {
    /// All of them.
    All,
    /// Those that were not there yet.
    New,
}

/// Gets those of the peers that this machine can have and prints where they are.
pub(crate) fn provide(peers: &[Peer], named: Named) -> anyhow::Result<()> {
    let waiting = Mutex::new(VecDeque::from(peers.to_vec()));
    let next = || waiting.lock().ok().and_then(|mut waiting| waiting.pop_front());
    let work = || {
        while let Some(peer) = next() {
            provide_one(peer, named)?;
        }
        Ok(())
    };
    thread::scope(|scope| {
        let workers: Vec<_> = (0..SIDE_BY_SIDE).map(|_| scope.spawn(work)).collect();
        workers
            .into_iter()
            .try_for_each(|worker| worker.join().unwrap_or_else(|_| bail!("a peer's builder panicked")))
    })
}

fn provide_one(peer: Peer, named: Named) -> anyhow::Result<()> {
    if let Err(reason) = peer.available() {
        println!("skip {}: {reason}", peer.name());
        if on_ci() {
            bail!("peer {} must not be skipped here", peer.name());
        }
        return Ok(());
    }
    let provided = peer.provide().with_context(|| format!("peer {}", peer.name()))?;
    if named == Named::All || provided.took.is_some() {
        let (version, path) = (&provided.version, provided.path.display());
        println!("peer {} {version} {path} ({})", peer.name(), took(provided.took));
    }
    Ok(())
}

pub(crate) fn took(time: Option<Duration>) -> String {
    time.map_or("cached".to_owned(), |time| format!("took {:.0} s", time.as_secs_f64()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_there_took_no_time() {
        assert_eq!(took(None), "cached");
        assert_eq!(took(Some(Duration::from_millis(61_800))), "took 62 s");
    }

    #[test]
    fn an_unknown_name_is_refused_with_those_there_are() {
        let error = run(&Arguments { names: vec!["kubernets".into()] }).unwrap_err().to_string();
        assert!(error.starts_with("there is no peer kubernets; there are: etcd, "), "{error}");
    }
}
