//! The embedded API server beside a real one, under the same load.

use anyhow::{Context, bail, ensure};
use peers::Peer;

use super::Effort;
use super::figure::{Bar, Figure};
use crate::run::{listen, measured_programs, program};

/// How many times better ours has to be. A measurement begins with one of these names.
const BARS: [(&str, Better, f64); 6] = [
    ("creates", Better::More, 3.0),
    ("list", Better::Less, 3.0),
    ("event_p99", Better::Less, 3.0),
    ("memory", Better::Less, 5.0),
    ("start_empty", Better::Less, 10.0),
    ("start_full", Better::Less, 5.0),
];

#[derive(Clone, Copy, Debug, PartialEq)]
enum Better {
    More,
    Less,
}

pub(crate) fn run(effort: Effort) -> anyhow::Result<Vec<Figure>> {
    Peer::Kubernetes.provide()?;
    Peer::Etcd.provide()?;
    let built = measured_programs()?;
    let mut load = program(built.join("apiserver-load"));
    load.arg(built.join("herdsman"));
    if effort == Effort::Quick {
        load.arg("--quick");
    }
    let transcript = listen(&mut load)?;
    ensure!(transcript.success, "the load failed");
    transcript.lines.iter().filter_map(|line| line.strip_prefix("measured ")).map(figure).collect()
}

/// The figure of a line `<name> herdsman=<number> kubernetes=<number> <unit>`.
fn figure(measured: &str) -> anyhow::Result<Figure> {
    let mut words = measured.split(' ');
    let name = words.next().unwrap_or_default();
    let mut number = |label: &str| -> anyhow::Result<f64> {
        let word =
            words.next().and_then(|word| word.strip_prefix(label)).with_context(|| measured.to_owned())?;
        Ok(word.parse()?)
    };
    let (herdsman, kubernetes) = (number("herdsman=")?, number("kubernetes=")?);
    let Some((_, better, bar)) = BARS.iter().find(|(prefix, ..)| name.starts_with(prefix)) else {
        bail!("no bar for {measured:?}");
    };
    let value = match better {
        Better::More => herdsman / kubernetes,
        Better::Less => kubernetes / herdsman,
    };
    Ok(Figure { name: format!("apiserver_{name}"), value, unit: "times better", bar: Bar::AtLeast(*bar) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_say_how_many_times_better_ours_is() {
        for (line, wanted) in [
            (
                "creates_custom herdsman=450.00 kubernetes=100.00 /s",
                "figure apiserver_creates_custom value=4.5 times better bar=>=3 ok",
            ),
            (
                "memory herdsman=250.00 kubernetes=1000.00 MB",
                "figure apiserver_memory value=4 times better bar=>=5 short",
            ),
        ] {
            assert_eq!(figure(line).unwrap().to_string(), wanted);
        }
        assert!(figure("creates herdsman=1").is_err() && figure("x herdsman=1 kubernetes=1 s").is_err());
    }
}
