//! What a machine is made from: a Debian of packages, kept as an archive and known to Docker by its recipe's digest.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Stdio};

use super::Error;
use crate::cache::Recipe;
use crate::catalog::Peer;
use crate::command;
use crate::debian;
use crate::docker::Docker;

/// The Debian release of machines.
pub(crate) const SUITE: &str = "bookworm";

/// What is on a machine beside the bare minimum: an init system, and what installers of Kubernetes want.
const PACKAGES: [&str; 12] = [
    "ca-certificates",
    "conntrack",
    "curl",
    "dbus",
    "iproute2",
    "iptables",
    "kmod",
    "mount",
    "openssh-server",
    "procps",
    "systemd-sysv",
    "util-linux",
];

/// Run in the new root: nothing that can be fetched again, an identity of its own for each machine, and logs that
/// survive a reboot.
const FINISH: &str = "rm -rf var/cache/apt/* var/lib/apt/lists/* etc/hostname etc/ssh/ssh_host_* var/lib/dbus/machine-id
: > etc/machine-id
mkdir -p var/log/journal etc/systemd/system/ssh.service.d
printf '[Service]\\nExecStartPre=\\nExecStartPre=/usr/bin/ssh-keygen -A\\nExecStartPre=/usr/sbin/sshd -t\\n' > etc/systemd/system/ssh.service.d/keys.conf
";

/// What Docker calls it.
const REPOSITORY: &str = "herdsman-node";

/// The archive inside of a cache entry.
const ARCHIVE: &str = "root.tar";

/// Everything that decides what a machine is made from, but for the day's updates.
pub(crate) fn recipe() -> Recipe {
    let recipe = Recipe::new().part("suite", SUITE).part("architecture", std::env::consts::ARCH);
    PACKAGES.iter().fold(recipe, |recipe, package| recipe.part("package", package)).part("finish", FINISH)
}

/// Makes the archive in a directory.
pub(crate) fn build(into: &Path) -> Result<(), debian::Error> {
    debian::install(&[("debootstrap", "debootstrap")])?;
    let tool = |source| debian::Error::Tool { package: "debootstrap".into(), source };
    let root = into.join("root");
    // In a mount namespace of its own: what it mounts is gone with it, should it be killed.
    let mut bootstrap = Command::new("unshare");
    bootstrap.args(["--mount", "debootstrap", "--variant=minbase"]);
    bootstrap.arg(format!("--include={}", PACKAGES.join(","))).arg(SUITE).arg(&root);
    bootstrap.args(debian::mirror());
    command::run(&mut bootstrap).map_err(tool)?;
    command::run(Command::new("sh").args(["-ec", FINISH]).current_dir(&root)).map_err(tool)?;
    let mut tar = Command::new("tar");
    tar.args(["--create", "--numeric-owner", "--xattrs", "--file"]).arg(into.join(ARCHIVE));
    command::run(tar.arg("--directory").arg(&root).arg(".")).map_err(tool)?;
    fs::remove_dir_all(&root).map_err(|source| debian::Error::File { path: root, source })
}

/// The image's name in a Docker that has it.
pub(super) fn load(docker: &Docker) -> Result<String, Error> {
    let provided = Peer::NodeImage.provide()?;
    let image = format!("{REPOSITORY}:{}", recipe().digest());
    if docker.run(&["image", "inspect", "--format", "{{.Id}}", &image]).is_ok() {
        return Ok(image);
    }
    // Those of other recipes only take space.
    for other in docker.run(&["image", "ls", "--quiet", REPOSITORY])?.lines() {
        docker.run(&["image", "rm", "--force", other])?;
    }
    let path = provided.path.join(ARCHIVE);
    let archive = File::open(&path).map_err(|source| crate::docker::Error::File {
        what: "open",
        path: path.clone(),
        source,
    })?;
    let mut import = docker.client();
    import.args(["import", "-", &image]).stdin(Stdio::from(archive));
    command::run(&mut import)?;
    Ok(image)
}
