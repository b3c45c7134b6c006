//! The command line: what can be asked, and what is called for it.

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::verbs::{
    completion, create, delete, describe, diff, get, kubeconfig, logs, node_command, scale, ssh,
    support_bundle, upgrade,
};
use crate::{
    apiserver, backup, certificates, confined, crds, explain, log, moving, plan, quickstart, rotate, server,
    simulate, up,
};

/// RKE2 and K3s clusters from one declarative object, managed for life.
#[derive(Debug, Parser)]
#[command(name = "herdsman", version, arg_required_else_help = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run everything on this machine, kept in a directory, until SIGTERM
    Up(Box<up::Arguments>),
    /// Simulate machines that register as custom nodes of a cluster, until SIGTERM
    Sim(simulate::Arguments),
    /// Serve a Kubernetes API of its own, kept in a directory, until SIGTERM
    Apiserver(apiserver::Arguments),
    /// Run everything on a Kubernetes that is there already, as one replica of several if you like, until SIGTERM
    Server(Box<server::Arguments>),
    /// Print the CustomResourceDefinitions as YAML, or install them
    Crds {
        #[command(subcommand)]
        action: Option<CrdsAction>,
    },
    /// Print what a change of a cluster would do to its nodes; exits 0 if nothing changes, 2 if no node is disturbed, 3 if
    /// nodes restart, are drained or replaced
    Plan(plan::Arguments),
    /// Print what a cluster, control plane or machine waits for, since when, and what to do
    Explain(explain::Arguments),
    /// Copy a data directory to one file, also while a server runs on it
    Backup(backup::BackupArguments),
    /// Make a data directory what it was when a backup was made
    Restore(backup::RestoreArguments),
    /// Move all clusters to another server, while they run
    Move(moving::Arguments),
    /// Add a key that Secrets are encrypted with at rest, without stopping the server
    RotateEncryptionKey(rotate::Arguments),
    /// Show who vouches for the server, or have a new authority take over that nodes follow by themselves
    Certificates {
        #[command(subcommand)]
        action: certificates::Action,
    },
    /// Start everything on this machine and create a first cluster: five nodes, simulated or in Docker
    Quickstart(quickstart::Arguments),
    /// Make a cluster
    Create {
        #[command(subcommand)]
        what: create::What,
    },
    /// Delete a cluster with all its machines, or one machine
    Delete(delete::Arguments),
    /// List clusters, machines, pools and more
    Get(get::Arguments),
    /// Show everything that a cluster is made of, and what is not well
    Describe(describe::Arguments),
    /// Show what applying a file would change
    Diff(diff::Arguments),
    /// Change how many machines a pool has
    Scale(scale::Arguments),
    /// Change a cluster's version of Kubernetes
    Upgrade(upgrade::Arguments),
    /// Print the way to a cluster, for any kubectl
    Kubeconfig(kubeconfig::Arguments),
    /// Print the command that makes a host a node of a cluster
    #[command(name = "node-command")]
    Register(node_command::Arguments),
    /// Open a shell on a machine, with the key that its driver kept
    Ssh(ssh::Arguments),
    /// Print what a machine's agent has reported
    Logs(logs::Arguments),
    /// Gather everything that helps to help in one file, without secrets
    SupportBundle(support_bundle::Arguments),
    /// Run a program that sees no more of this machine than it needs; the server starts drivers by it
    #[command(hide = true)]
    Confined(confined::Arguments),
    /// Print what a shell needs to complete our words
    Completion(completion::Arguments),
}

#[derive(Debug, Subcommand)]
enum CrdsAction {
    /// Install or update them in the cluster of the current kubeconfig, and wait until they are served
    Install,
}

impl Cli {
    /// Runs the command: 0 on success, 1 on failure with the reason on stderr. (clap ends with 2 on wrong usage.)
    pub(crate) fn run(self) -> ExitCode {
        let outcome = match self.command {
            Command::Up(arguments) => {
                log::start();
                up::run(*arguments)
            }
            Command::Sim(arguments) => {
                log::start();
                simulate::run(&arguments)
            }
            Command::Apiserver(arguments) => {
                log::start();
                apiserver::run(&arguments)
            }
            Command::Server(arguments) => {
                log::start();
                server::run(*arguments)
            }
            Command::Crds { action: None } => crds::print(),
            Command::Crds { action: Some(CrdsAction::Install) } => crds::install(),
            Command::Plan(arguments) => match plan::run(&arguments) {
                Ok(status) => return status,
                Err(error) => Err(error),
            },
            Command::Explain(arguments) => explain::run(&arguments),
            Command::Backup(arguments) => backup::make(&arguments),
            Command::Restore(arguments) => backup::restore(&arguments),
            Command::Move(arguments) => moving::run(&arguments),
            Command::RotateEncryptionKey(arguments) => rotate::run(&arguments),
            Command::Certificates { action } => certificates::run(&action),
            Command::Quickstart(arguments) => quickstart::run(&arguments),
            Command::Create { what } => create::run(&what),
            Command::Delete(arguments) => delete::run(&arguments),
            Command::Get(arguments) => get::run(&arguments),
            Command::Describe(arguments) => describe::run(&arguments),
            Command::Diff(arguments) => diff::run(&arguments),
            Command::Scale(arguments) => scale::run(&arguments),
            Command::Upgrade(arguments) => upgrade::run(&arguments),
            Command::Kubeconfig(arguments) => kubeconfig::run(&arguments),
            Command::Register(arguments) => node_command::run(&arguments),
            Command::Ssh(arguments) => ssh::run(&arguments),
            Command::Logs(arguments) => logs::run(&arguments),
            Command::Confined(arguments) => confined::run(&arguments),
            Command::SupportBundle(arguments) => support_bundle::run(&arguments),
            Command::Completion(arguments) => completion::run(&arguments),
        };
        match outcome {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("error: {error:#}");
                ExitCode::FAILURE
            }
        }
    }
}
