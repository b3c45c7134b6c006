//! A machine as far as a script can tell: a root of its own, with the system's programs mounted read-only.

use std::collections::BTreeMap;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use peers::Peer;

/// Directories of the system that programs need.
const SYSTEM: [&str; 9] = [
    "etc/ssl",
    "usr/bin",
    "usr/sbin",
    "usr/lib",
    "usr/lib32",
    "usr/lib64",
    "usr/libexec",
    "usr/share",
    "dev",
];
/// Links at the top where the system has merged its directories, directories where it has not.
const TOP: [&str; 4] = ["bin", "sbin", "lib", "lib64"];
/// Notes what it is asked, remembers whether the service runs, fails when a test wants that.
const SYSTEMCTL: &str = "#!/bin/sh
echo \"$*\" >>/systemctl.log
[ ! -f \"/systemctl.broken.$1\" ] || exit 1
case \"$1\" in
is-active) [ -f /active ] ;;
start | restart) : >/active ;;
stop) rm -f /active ;;
esac
";

/// What runs a script, and which other programs it finds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shell {
    pub(crate) command: &'static [&'static str],
    pub(crate) tools: &'static str,
}

pub(crate) struct Machine {
    root: tempfile::TempDir,
    shell: Shell,
    busybox: PathBuf,
}

impl Machine {
    /// A fresh one; `None`, having said so, where tests cannot have one.
    pub(crate) fn new(shell: Shell) -> Option<Self> {
        if peers::skip("install") {
            return None;
        }
        let is_root = std::process::Command::new("id").arg("-u").output().unwrap().stdout == b"0\n";
        if !is_root {
            assert!(std::env::var("CI").is_err(), "install needs root, and CI must not skip it");
            println!("skip install: needs root");
            return None;
        }
        let root = tempfile::tempdir().unwrap();
        let busybox = Peer::Busybox.provide().unwrap().path.join("bin/busybox");
        let machine = Machine { root, shell, busybox };
        machine.lay_out();
        Some(machine)
    }

    fn lay_out(&self) {
        let directories = [
            "etc/systemd/system",
            "proc",
            "sys",
            "tmp",
            "usr/local/bin",
            "var/lib",
            "opt",
            "fake",
            "applets",
            "curl",
            "wget",
            "sbb",
        ];
        for directory in directories.iter().chain(&SYSTEM) {
            std::fs::create_dir_all(self.path(directory)).unwrap();
        }
        for name in TOP {
            if let Ok(target) = Path::new("/").join(name).read_link() {
                symlink(target, self.path(name)).unwrap();
            }
        }
        let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/agent/install");
        for script in ["install.sh", "uninstall.sh"] {
            std::fs::copy(scripts.join(script), self.path(script)).unwrap();
        }
        std::fs::write(self.path("etc/passwd"), "root:x:0:0:root:/root:/bin/sh\n").unwrap();
        std::fs::write(self.path("etc/group"), "root:x:0:\n").unwrap();
        self.program("fake/systemctl", SYSTEMCTL);
        std::fs::copy(&self.busybox, self.path("sbb/busybox")).unwrap();
        let applets = Command::new(&self.busybox).arg("--list").output().unwrap();
        for applet in String::from_utf8(applets.stdout).unwrap().lines().filter(|name| *name != "wget") {
            symlink("/sbb/busybox", self.path("applets").join(applet)).unwrap();
        }
        for downloader in ["curl", "wget"] {
            symlink(format!("/usr/bin/{downloader}"), self.path(downloader).join(downloader)).unwrap();
        }
    }

    fn program(&self, path: &str, content: &str) {
        std::fs::write(self.path(path), content).unwrap();
        std::fs::set_permissions(self.path(path), std::fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// A path of the machine, as the test sees it.
    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.root.path().join(path)
    }

    pub(crate) fn read(&self, path: &str) -> String {
        std::fs::read_to_string(self.path(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    /// Every file and what is in it, but for what the test itself keeps there.
    pub(crate) fn files(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let mut found = BTreeMap::new();
        let mut pending = ["etc", "var", "tmp", "opt", "usr/local"].map(|path| self.path(path)).to_vec();
        while let Some(path) = pending.pop() {
            if path.is_dir() {
                pending.extend(path.read_dir().unwrap().map(|entry| entry.unwrap().path()));
            } else {
                found.insert(path.clone(), std::fs::read(&path).unwrap());
            }
        }
        found
    }

    /// What systemd was told.
    pub(crate) fn systemctl(&self) -> Vec<String> {
        let log = std::fs::read_to_string(self.path("systemctl.log")).unwrap_or_default();
        log.lines().map(str::to_owned).collect()
    }

    pub(crate) fn forget_systemctl(&self) {
        std::fs::write(self.path("systemctl.log"), "").unwrap();
    }

    /// From now on systemd fails when it is told to.
    pub(crate) fn break_systemctl(&self, verb: &str) {
        std::fs::write(self.path(&format!("systemctl.broken.{verb}")), "").unwrap();
    }

    /// No half-written file, no temporary directory, nothing that makes an agent wait.
    pub(crate) fn assert_nothing_is_left_behind(&self) {
        let is_left = |path: &&PathBuf| {
            let name = path.file_name().unwrap().to_string_lossy();
            path.starts_with(self.path("tmp"))
                || name.ends_with(".part")
                || name.ends_with(".new")
                || name.ends_with("-test")
                || name == "restart-pending"
        };
        let files = self.files();
        let left: Vec<&PathBuf> = files.keys().filter(is_left).collect();
        assert!(left.is_empty(), "{left:?} by {:?}", self.shell);
    }

    /// A run of a script.
    pub(crate) fn run(&self, script: &str) -> Run<'_> {
        let variables = BTreeMap::from([
            ("PATH".to_owned(), format!("/fake:{}", self.shell.tools)),
            ("HOME".to_owned(), "/root".to_owned()),
            ("HERDSMAN_INSTALL_PAUSE".to_owned(), "0".to_owned()),
        ]);
        Run { machine: self, script: script.into(), arguments: Vec::new(), variables, mounts: Vec::new() }
    }
}

pub(crate) struct Run<'a> {
    machine: &'a Machine,
    script: String,
    arguments: Vec<String>,
    variables: BTreeMap<String, String>,
    mounts: Vec<String>,
}

impl Run<'_> {
    pub(crate) fn arguments(mut self, arguments: &[&str]) -> Self {
        self.arguments.extend(arguments.iter().map(|argument| (*argument).to_owned()));
        self
    }

    pub(crate) fn variable(mut self, name: &str, value: &str) -> Self {
        self.variables.insert(name.into(), value.into());
        self
    }

    /// With a directory of the machine mounted onto itself.
    pub(crate) fn mounted(mut self, path: &str) -> Self {
        self.mounts.push(path.into());
        self
    }

    /// What it printed; it must succeed.
    pub(crate) fn succeed(self) -> String {
        let (succeeded, output) = self.go();
        assert!(succeeded, "{output}");
        output
    }

    /// What it printed; it must fail.
    pub(crate) fn fail(self) -> String {
        let (succeeded, output) = self.go();
        assert!(!succeeded, "{output}");
        output
    }

    /// The mounts are seen by the script alone and end with it.
    fn go(self) -> (bool, String) {
        let root = self.machine.root.path().display().to_string();
        let mut setup =
            format!("set -e; root={root}; mount -t proc proc $root/proc; mount --rbind /sys $root/sys\n");
        for directory in SYSTEM.iter().chain(&TOP).filter(|path| {
            let metadata = Path::new("/").join(path).symlink_metadata();
            metadata.is_ok_and(|metadata| metadata.is_dir())
        }) {
            setup += &format!("mkdir -p $root/{directory}; mount --bind /{directory} $root/{directory}\n");
            setup += &format!("mount -o remount,ro,bind $root/{directory} || true\n");
        }
        for path in &self.mounts {
            setup += &format!("mount --bind $root{path} $root{path}\n");
        }
        setup += "exec chroot $root \"$@\" 2>&1\n";
        let mut command = Command::new("unshare");
        command.args(["--mount", "--propagation", "private", "sh", "-c", &setup, "sh"]);
        // The setup runs in the test's environment, the script in its own.
        command.args(["/usr/bin/env", "-i"]);
        command.args(self.variables.iter().map(|(name, value)| format!("{name}={value}")));
        let [shell, arguments @ ..] = self.machine.shell.command else { panic!("no shell") };
        let shell = if *shell == "busybox" { "/sbb/busybox".into() } else { format!("/usr/bin/{shell}") };
        command.arg(shell).args(arguments).arg(&self.script).args(&self.arguments);
        let output = command.output().unwrap();
        let text = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8_lossy(&text).into_owned())
    }
}
