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

/// Run in that root to make it a machine of a cloud: Debian's cloud-init, as it comes. It is told only that its user data lie in a directory
/// (NoCloud), that Docker has seen to the network, and that there is one language.
const CLOUD: &str = "mount -t proc proc proc
printf '#!/bin/sh\\nexit 101\\n' > usr/sbin/policy-rc.d
chmod +x usr/sbin/policy-rc.d
chroot . apt-get -qq update
DEBIAN_FRONTEND=noninteractive chroot . apt-get -qq install -y --no-install-recommends cloud-init
rm -rf usr/sbin/policy-rc.d var/cache/apt/* var/lib/apt/lists/*
printf 'datasource_list: [NoCloud, None]\\nnetwork: {config: disabled}\\nlocale: C.UTF-8\\n' > etc/cloud/cloud.cfg.d/99-seed.cfg
";

/// The archive inside of a cache entry.
const ARCHIVE: &str = "root.tar";

/// Which machines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Image {
    /// Plain ones.
    Plain,
    /// Those that read user data when they first boot: from `/var/lib/cloud/seed/nocloud`.
    Cloud,
}

impl Image {
    /// Everything that decides what a machine is made from, but for the day's updates.
    pub(crate) fn recipe(self) -> Recipe {
        let recipe = Recipe::new().part("suite", SUITE).part("architecture", std::env::consts::ARCH);
        let recipe = PACKAGES.iter().fold(recipe, |recipe, package| recipe.part("package", package));
        let recipe = recipe.part("finish", FINISH);
        if self == Image::Cloud { recipe.part("cloud", CLOUD) } else { recipe }
    }

    fn peer(self) -> Peer {
        match self {
            Image::Plain => Peer::NodeImage,
            Image::Cloud => Peer::CloudImage,
        }
    }

    /// What Docker calls it.
    fn repository(self) -> &'static str {
        match self {
            Image::Plain => "herdsman-node",
            Image::Cloud => "herdsman-cloud-node",
        }
    }

    /// The image's name in a Docker that has it.
    pub(super) fn load(self, docker: &Docker) -> Result<String, Error> {
        let provided = self.peer().provide()?;
        let repository = self.repository();
        let image = format!("{repository}:{}", self.recipe().digest());
        if docker.run(&["image", "inspect", "--format", "{{.Id}}", &image]).is_ok() {
            return Ok(image);
        }
        // Those of other recipes only take space.
        for other in docker.run(&["image", "ls", "--quiet", repository])?.lines() {
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
}

/// Makes the archive of plain machines in a directory.
pub(crate) fn build(into: &Path) -> Result<(), debian::Error> {
    debian::install(&[("debootstrap", "debootstrap")])?;
    let root = into.join("root");
    // In a mount namespace of its own: what it mounts is gone with it, should it be killed.
    let mut bootstrap = Command::new("unshare");
    bootstrap.args(["--mount", "debootstrap", "--variant=minbase"]);
    bootstrap.arg(format!("--include={}", PACKAGES.join(","))).arg(SUITE).arg(&root);
    bootstrap.args(debian::mirror());
    command::run_with_retries(&mut bootstrap).map_err(tool)?;
    command::run(Command::new("sh").args(["-ec", FINISH]).current_dir(&root)).map_err(tool)?;
    pack(&root, into)
}

/// Makes the archive of machines of a cloud in a directory, from that of plain ones.
pub(crate) fn build_cloud(plain: &Path, into: &Path) -> Result<(), debian::Error> {
    let root = into.join("root");
    let file = |source| debian::Error::File { path: root.clone(), source };
    fs::create_dir(&root).map_err(file)?;
    let mut unpack = Command::new("tar");
    unpack.args(["--extract", "--numeric-owner", "--xattrs", "--file"]).arg(plain.join(ARCHIVE));
    command::run(unpack.arg("--directory").arg(&root)).map_err(tool)?;
    // Names are looked up as they are here.
    fs::copy("/etc/resolv.conf", root.join("etc/resolv.conf")).map_err(file)?;
    let mut install = Command::new("unshare");
    command::run(install.args(["--mount", "sh", "-ec", CLOUD]).current_dir(&root)).map_err(tool)?;
    pack(&root, into)
}

fn tool(source: command::Error) -> debian::Error {
    debian::Error::Tool { package: "debootstrap".into(), source }
}

fn pack(root: &Path, into: &Path) -> Result<(), debian::Error> {
    let mut tar = Command::new("tar");
    tar.args(["--create", "--numeric-owner", "--xattrs", "--file"]).arg(into.join(ARCHIVE));
    command::run(tar.arg("--directory").arg(root).arg(".")).map_err(tool)?;
    fs::remove_dir_all(root).map_err(|source| debian::Error::File { path: root.to_owned(), source })
}
