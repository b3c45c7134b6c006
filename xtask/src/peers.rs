//! `cargo xtask peers`: get the real programs that tests run against.

use std::io::Write;
use std::time::Duration;

use anyhow::bail;
use peers::Peer;
use peers::availability::on_ci;

pub(crate) fn run() -> anyhow::Result<()> {
    provide_all()
}

/// Gets every peer that this machine can have and prints where it is.
pub(crate) fn provide_all() -> anyhow::Result<()> {
    for peer in Peer::ALL {
        if let Err(reason) = peer.available() {
            println!("skip {}: {reason}", peer.name());
            if on_ci() {
                bail!("peer {} must not be skipped here", peer.name());
            }
            continue;
        }
        // The name first: what follows may take minutes.
        print!("peer {} ", peer.name());
        std::io::stdout().flush()?;
        let provided = peer.provide().inspect_err(|_| println!())?;
        println!("{} {} ({})", provided.version, provided.path.display(), took(provided.took));
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
}
