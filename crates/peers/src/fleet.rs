//! Machines that a real K3s runs on: what they are made from.
//!
//! One archive, made once: the Debian of [`crate::machine`], what K3s needs beside itself, the workarounds that a container
//! takes (`peers/fleet/root`), and as archives of images K3s's installer in each version and the pause container, at the
//! places where agent and K3s look for images. Nothing is pulled.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use sha2::{Digest, Sha256};

use crate::archive::{Entry, Image};
use crate::cache::{self, Recipe};
use crate::catalog::{self, Peer, Provided};
use crate::command;
use crate::debian;
use crate::k3s;
use crate::machine;

/// What K3s needs from Debian: who starts containers, and who connects them.
const PACKAGES: [&str; 2] = ["runc", "containernetworking-plugins"];
/// Where the agent looks for archives of images. A link, so that a machine's volume does not get a copy of them.
const AGENT_IMAGES: &str = "var/lib/rancher/agent/images";
const AGENT_IMAGES_TARGET: &str = "usr/share/fleet/images";
/// Where K3s does.
const K3S_IMAGES: &str = "var/lib/rancher/k3s/agent/images";
/// The container that holds a pod, as K3s calls it.
const PAUSE_IMAGE: &str = "rancher/mirrored-pause:3.6";
/// The archive in a cache entry.
const ARCHIVE: &str = "root.tar";

/// What Docker calls the image unless its user says otherwise.
pub const IMAGE: &str = "herdsman-node-k3s:latest";

/// Why there is no such machine.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// K3s or the Debian under it.
    #[error(transparent)]
    Peer(#[from] Box<catalog::Error>),
    /// A package.
    #[error(transparent)]
    Debian(#[from] debian::Error),
    /// A program failed.
    #[error(transparent)]
    Command(#[from] command::Error),
    /// The file system refuses.
    #[error(transparent)]
    File(#[from] cache::Error),
}

/// Everything that decides what [`build`] makes.
pub(crate) fn recipe(k3s: &Provided) -> Result<Recipe, Error> {
    let recipe =
        Recipe::new().part("node", machine::Image::Plain.recipe().digest()).part("k3s", name_of(&k3s.path));
    // How it is put together; to be changed with it.
    let mut recipe = recipe.part("archive", "files only");
    for file in files_below(&sources())? {
        let path = file.strip_prefix(sources()).unwrap_or(&file).display().to_string();
        let content = match fs::read_link(&file) {
            Ok(target) => target.display().to_string().into_bytes(),
            Err(_) => fs::read(&file).map_err(cache::at("read", &file))?,
        };
        recipe = recipe.part(&path, content);
    }
    Ok(PACKAGES.iter().fold(recipe, |recipe, package| recipe.part("package", package)))
}

/// Makes the archive in a directory.
pub(crate) fn build(k3s: &Provided, into: &Path) -> Result<(), Error> {
    let node = Peer::NodeImage.provide().map_err(Box::new)?;
    let (root, archive) = (into.join("root"), into.join(ARCHIVE));
    command::run(Command::new("cp").arg("--archive").arg(sources().join("root")).arg(&root))?;
    packages(&root)?;
    images(k3s, &root, into)?;
    copy(&k3s.path.join(k3s::SHIM), &root.join("usr/local/bin").join(k3s::SHIM), 0o755)?;
    command::run(Command::new("cp").arg("--reflink=auto").arg(node.path.join(ARCHIVE)).arg(&archive))?;
    append(&archive, &root)?;
    fs::remove_dir_all(&root).map_err(cache::at("remove", &root))?;
    Ok(())
}

/// Gives the image to the Docker that `client` talks to, under this name, with further archives of images for K3s. Does
/// nothing if it is there; what had the name before goes.
pub fn load(client: impl Fn() -> Command, image: &str, further: &[&Path]) -> Result<(), Error> {
    let provided = Peer::Fleet.provide().map_err(Box::new)?;
    let digest = digest(&provided, further)?;
    let label = format!("{{{{index .Config.Labels \"{LABEL}\"}}}}");
    let there = command::run(client().args(["image", "inspect", "--format", &label, image]));
    if there.is_ok_and(|there| there.trim() == digest) {
        return Ok(());
    }
    // The last one takes much space. It may not be there, or be in use: then it stays.
    let _ = command::run(client().args(["image", "rm", image]));
    let scratch = Scratch::beside(&provided.path)?;
    let (root, archive) = (scratch.0.join("root"), scratch.0.join(ARCHIVE));
    let images = root.join(K3S_IMAGES);
    fs::create_dir_all(&images).map_err(cache::at("create", &images))?;
    for archive in further {
        copy(archive, &images.join(name_of(archive)), 0o644)?;
    }
    command::run(Command::new("cp").arg("--reflink=auto").arg(provided.path.join(ARCHIVE)).arg(&archive))?;
    append(&archive, &root)?;
    let file = fs::File::open(&archive).map_err(cache::at("open", &archive))?;
    let mut import = client();
    import.args(["import", "--change", "CMD [\"/lib/systemd/systemd\"]"]);
    import.args(["--change", &format!("LABEL {LABEL}={digest}"), "-", image]).stdin(Stdio::from(file));
    command::run(&mut import)?;
    Ok(())
}

/// On the image: what it is made from.
const LABEL: &str = "io.herdsman.fleet";

fn digest(provided: &Provided, further: &[&Path]) -> Result<String, Error> {
    let mut recipe = Recipe::new().part("fleet", name_of(&provided.path));
    for path in further {
        let bytes = fs::read(path).map_err(cache::at("read", path))?;
        recipe = recipe.part(&name_of(path), Sha256::digest(bytes));
    }
    Ok(recipe.digest())
}

fn packages(root: &Path) -> Result<(), Error> {
    for package in PACKAGES {
        match debian::release() == machine::SUITE {
            true => debian::fetch(package, root)?,
            false => debian::fetch_from(machine::SUITE, package, root)?,
        }
    }
    Ok(())
}

/// The installers for the agent, the pause container for K3s.
fn images(k3s: &Provided, root: &Path, scratch: &Path) -> Result<(), Error> {
    let (for_agent, for_k3s) = (root.join(AGENT_IMAGES_TARGET), root.join(K3S_IMAGES));
    for directory in [&for_agent, &for_k3s, &root.join("var/lib/rancher/agent")] {
        fs::create_dir_all(directory).map_err(cache::at("create", directory))?;
    }
    let link = root.join(AGENT_IMAGES);
    std::os::unix::fs::symlink(Path::new("/").join(AGENT_IMAGES_TARGET), &link)
        .map_err(cache::at("link", &link))?;
    let (run, installer) = (sources().join("installer/run.sh"), k3s.path.join(k3s::INSTALLER));
    for version in k3s::VERSIONS {
        let tag = version.replace('+', "-");
        let program = k3s::program(k3s, version);
        let files = [("run.sh", &run), ("installer.sh", &installer), ("k3s", &program)];
        let files = files.map(|(path, from)| Entry { path, from, mode: 0o755 });
        let name = format!("rancher/system-agent-installer-k3s:{tag}");
        let archive = for_agent.join(format!("installer-k3s-{tag}.tar"));
        write(&Image { name: &name, entrypoint: &[], files: &files }, &archive)?;
    }
    let pause = scratch.join("pause");
    let mut compile = Command::new("cc");
    command::run(compile.args(["-Os", "-static", "-s", "-o"]).arg(&pause).arg(sources().join("pause.c")))?;
    let files = [Entry { path: "pause", from: &pause, mode: 0o755 }];
    write(&Image { name: PAUSE_IMAGE, entrypoint: &["/pause"], files: &files }, &for_k3s.join("pause.tar"))?;
    fs::remove_file(&pause).map_err(cache::at("remove", &pause))?;
    Ok(())
}

fn write(image: &Image<'_>, archive: &Path) -> Result<(), Error> {
    Ok(image.write(archive).map_err(cache::at("write", archive))?)
}

/// Adds the files below a directory to an archive, as root's. No directories: Docker takes none that is there twice, and makes
/// those that are missing.
fn append(archive: &Path, root: &Path) -> Result<(), Error> {
    let mut tar = Command::new("tar");
    tar.args(["--append", "--numeric-owner", "--owner=0", "--group=0", "--file"]).arg(archive);
    tar.arg("--directory").arg(root);
    for file in files_below(root)? {
        tar.arg(file.strip_prefix(root).map_or(file.as_path(), |inside| inside));
    }
    command::run(&mut tar)?;
    Ok(())
}

fn copy(from: &Path, to: &Path, mode: u32) -> Result<(), Error> {
    use std::os::unix::fs::PermissionsExt as _;
    fs::copy(from, to).map_err(cache::at("write", to))?;
    fs::set_permissions(to, fs::Permissions::from_mode(mode)).map_err(cache::at("change", to))?;
    Ok(())
}

fn name_of(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../peers/fleet")
}

/// Files and links below a directory, in a fixed order.
fn files_below(directory: &Path) -> Result<Vec<PathBuf>, Error> {
    let mut all = Vec::new();
    for entry in fs::read_dir(directory).map_err(cache::at("read", directory))? {
        let path = entry.map_err(cache::at("read", directory))?.path();
        if path.is_dir() && !path.is_symlink() {
            all.extend(files_below(&path)?);
        } else {
            all.push(path);
        }
    }
    all.sort();
    Ok(all)
}

/// A directory that goes with its value.
struct Scratch(PathBuf);

impl Scratch {
    /// On the same disk as a cache entry.
    fn beside(entry: &Path) -> Result<Self, Error> {
        let name = format!(".{}.{}", name_of(entry), std::process::id());
        let path = entry.with_file_name(name);
        fs::create_dir_all(&path).map_err(cache::at("create", &path))?;
        Ok(Scratch(path))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.0) {
            eprintln!("{} is left: {error}", self.0.display());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_recipe_covers_every_file() {
        let names: Vec<String> = files_below(&sources()).unwrap().iter().map(|path| name_of(path)).collect();
        for name in ["run.sh", "pause.c", "10-fleet.yaml", "containerd", "fleet-network.service"] {
            assert!(names.contains(&name.to_owned()), "{name} in {names:?}");
        }
        let provided = |name: &str| Provided { version: String::new(), path: name.into(), took: None };
        let digest = |name: &str| recipe(&provided(name)).unwrap().digest();
        assert_eq!(digest("k3s-1"), digest("k3s-1"));
        assert_ne!(digest("k3s-1"), digest("k3s-2"));
    }
}
