//! What clusters and machines cost the controllers.
//!
//! The management cluster's API server, and one for the nodes of all clusters, are processes of their own, reached over HTTP. This
//! process has the controllers and a provider that provisions at once. `cargo xtask bench capi` reads what is printed.

#![expect(clippy::unwrap_used, reason = "a measurement that cannot go on fails")]

#[path = "../../tests/controllers/kinds.rs"]
#[allow(dead_code, reason = "the scenarios use more of it")]
mod kinds;
mod provider;
mod server;
mod work;

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

/// The product's own.
#[cfg(target_os = "linux")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// An API server; it ends with this value.
struct Served(Child, String);

impl Served {
    fn start() -> Self {
        let program = std::env::current_exe().unwrap();
        let mut child =
            Command::new(program).arg("serve").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        Served(child, line.trim().to_owned())
    }
}

impl Drop for Served {
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
            let (management, nodes) = (Served::start(), Served::start());
            runtime.block_on(work::fleet([&management.1, &nodes.1], clusters.parse().unwrap()));
        }
        ["rollout", machines, times] => {
            let (management, nodes) = (Served::start(), Served::start());
            let (machines, times) = (machines.parse().unwrap(), times.parse().unwrap());
            runtime.block_on(work::rollout([&management.1, &nodes.1], machines, times));
        }
        _ => panic!("herd fleet <clusters> | herd rollout <machines> <times>"),
    }
}
