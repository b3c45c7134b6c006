//! Our tunnel beside Go's and beside a plain TLS websocket, under the same load.

use anyhow::{Context, ensure};
use peers::Peer;

use super::Effort;
use super::figure::{Bar, Figure};
use crate::run::{listen, measured_programs, program};

/// A transfer has to be this many times as fast as Go's, ...
const OF_GO: f64 = 1.5;
/// ... or this much of what a plain websocket gives, whichever is less.
const OF_RAW: f64 = 0.8;
/// Of what Go takes for a small request beside a large one, this much at most: a third.
const LATENCY_OF_GO: f64 = 0.33;
/// Bytes of a stream that may wait to be sent: `Limits::unsent`.
const UNSENT: f64 = 262_144.0;

pub(crate) fn run(effort: Effort) -> anyhow::Result<Vec<Figure>> {
    Peer::Remotedialer.provide()?;
    let built = measured_programs()?;
    let mut load = program(built.join("tunnel-load"));
    load.arg(built.join("tunnel-peer"));
    if effort == Effort::Quick {
        load.arg("--quick");
    }
    let transcript = listen(&mut load)?;
    ensure!(transcript.success, "the load failed");
    figures(&transcript.lines)
}

fn figures(lines: &[String]) -> anyhow::Result<Vec<Figure>> {
    let measured = |name: &str| -> anyhow::Result<[f64; 3]> {
        let line = lines
            .iter()
            .find_map(|line| line.strip_prefix("measured ")?.strip_prefix(name)?.strip_prefix(' '));
        let line = line.with_context(|| format!("{name} was not measured"))?;
        Ok([number(line, "herdsman=")?, number(line, "go=")?, number(line, "raw=")?])
    };
    let mut figures = Vec::new();
    for name in ["download", "upload"] {
        let [ours, go, raw] = measured(name)?;
        let bar = Bar::AtLeast((OF_GO * go).min(OF_RAW * raw).round());
        figures.push(Figure { name: format!("tunnel_{name}"), value: ours, unit: "MB/s", bar });
    }
    let [ours, go, raw] = measured("streams")?;
    let times = |name: &str, value, bar| Figure { name: name.into(), value, unit: "times", bar };
    figures.push(times("tunnel_streams_of_go", ours / go, Bar::AtLeast(1.0)));
    figures.push(times("tunnel_streams_of_raw", ours / raw, Bar::AtLeast(1.0)));
    let [ours, go, _] = measured("small_beside_large_p99")?;
    figures.push(times("tunnel_small_beside_large_p99_of_go", ours / go, Bar::AtMost(LATENCY_OF_GO)));
    let waiting =
        lines.iter().find_map(|line| line.strip_prefix("waiting ")).context("nothing about what waits")?;
    let unsent = Bar::AtMost(UNSENT);
    figures.push(Figure {
        name: "tunnel_unsent".into(),
        value: number(waiting, "unsent=")?,
        unit: "bytes of a stream",
        bar: unsent,
    });
    Ok(figures)
}

fn number(line: &str, label: &str) -> anyhow::Result<f64> {
    let word = line.split(' ').find_map(|word| word.strip_prefix(label));
    Ok(word.with_context(|| format!("no {label} in {line:?}"))?.parse()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lesser_bar_counts() {
        let lines = [
            "round 1 download herdsman 1.00",
            "measured download herdsman=900.00 go=500.00 raw=1000.00 MB/s",
            "measured upload herdsman=700.00 go=500.00 raw=800.00 MB/s",
            "measured streams herdsman=3000.00 go=1000.00 raw=100.00 /s",
            "measured small_beside_large_p99 herdsman=1.00 go=10.00 raw=0.10 ms",
            "waiting unsent=262144 unread=5",
        ]
        .map(String::from);
        let shown: Vec<_> = figures(&lines).unwrap().iter().map(ToString::to_string).collect();
        assert_eq!(shown[0], "figure tunnel_download value=900 MB/s bar=>=750 ok");
        assert_eq!(shown[1], "figure tunnel_upload value=700 MB/s bar=>=640 ok");
        assert_eq!(shown[2], "figure tunnel_streams_of_go value=3 times bar=>=1 ok");
        assert!(shown[4].starts_with("figure tunnel_small_beside_large_p99_of_go value=0.1 times bar=<="));
        assert!(shown[4].ends_with(" ok") && shown[5].ends_with(" ok"), "{shown:?}");
        assert!(figures(&lines[1..3]).is_err());
    }
}
