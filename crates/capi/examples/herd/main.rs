//! What clusters and machines cost the controllers: `herd <clusters> <machines>`.
//!
//! The management cluster's API server is a process of its own, reached over HTTP as in production. This process has the
//! controllers, a provider that provisions at once, and one API server for the nodes of all clusters: its memory is more
//! than the controllers' alone. `cargo xtask bench capi` reads what is printed.

#![expect(clippy::unwrap_used, reason = "a measurement that cannot go on fails")]

#[path = "../../tests/controllers/kinds.rs"]
#[allow(dead_code, reason = "the scenarios use more of it")]
mod kinds;
mod provider;
mod server;
mod work;

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

/// The management cluster's API server; it ends with this value.
struct Management(Child, String);

impl Management {
    fn start() -> Self {
        let program = std::env::current_exe().unwrap();
        let mut child =
            Command::new(program).arg("serve").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        Management(child, line.trim().to_owned())
    }
}

impl Drop for Management {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["serve"] => runtime.block_on(server::serve()),
        ["fleet", clusters] => {
            let management = Management::start();
            runtime.block_on(work::fleet(&management.1, clusters.parse().unwrap()));
        }
        ["rollout", machines, times] => {
            let management = Management::start();
            let (machines, times) = (machines.parse().unwrap(), times.parse().unwrap());
            runtime.block_on(work::rollout(&management.1, machines, times));
        }
        _ => panic!("herd fleet <clusters> | herd rollout <machines> <times>"),
    }
}
