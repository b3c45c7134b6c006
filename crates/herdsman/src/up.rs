//! `herdsman up`: the whole product on this machine.

use std::path::PathBuf;

use tokio::sync::Notify;

use crate::data_dir;
use crate::embedded::{Options, Stop};
use crate::product::{Address, Product, Setup};
use crate::serving::ServingArguments;

/// What can be said on the command line.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Where everything is kept; made if it is not there. By default /var/lib/herdsman for root, else ~/.local/share/herdsman
    #[arg(long, value_name = "DIRECTORY", env = data_dir::VARIABLE)]
    data_dir: Option<PathBuf>,
    #[command(flatten)]
    serving: ServingArguments,
    #[command(flatten)]
    options: Options,
}

/// Runs until SIGTERM or SIGINT.
pub(crate) fn run(arguments: Arguments) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut stop = Stop::new()?;
        let setup = Setup {
            directory: data_dir::absolute(arguments.data_dir.unwrap_or_else(data_dir::default)),
            serving: arguments.serving.checked()?,
            options: arguments.options,
        };
        let product = Product::start(setup).await?;
        let keys_changed = Notify::new();
        let ready = |address: &Address| {
            let kubeconfig = address.kubeconfig.display();
            println!("ready url={} kubeconfig={kubeconfig}", address.url);
            eprintln!(
                "next: export KUBECONFIG={kubeconfig} && herdsman create cluster demo --pool all:1:all --wait"
            );
        };
        product.run(ready, stop.asked(&keys_changed), &keys_changed).await;
        Ok(())
    })
}
