//! What a driver that the server starts can reach.

use std::path::Path;
use std::process::{Command, Output};

/// A data directory with a key, and the directory of one Job in it.
struct Stage(tempfile::TempDir);

impl Stage {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        for place in ["jobs/u/mounts", "jobs/u/storage", "jobs/other/storage"] {
            std::fs::create_dir_all(directory.path().join(place)).unwrap();
        }
        for file in ["encryption.key", "jobs/u/mounts/value", "jobs/other/storage/id_rsa"] {
            std::fs::write(directory.path().join(file), "content").unwrap();
        }
        Stage(directory)
    }

    fn path(&self, place: &str) -> String {
        self.0.path().join(place).display().to_string()
    }

    fn run(&self, script: &str) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_herdsman"));
        command.args(["confined", "--read", "/proc", "--read", &self.path("jobs/u/mounts")]);
        command.args(["--write", &self.path("jobs/u/storage"), "--", "/bin/sh", "-c", script]);
        command.current_dir(self.path("jobs/u/storage")).output().unwrap()
    }
}

/// Whether the kernel keeps files from programs; it says so if it does not.
fn enforced(output: &Output) -> bool {
    !String::from_utf8_lossy(&output.stderr).contains("has no Landlock")
}

#[test]
fn a_driver_gains_no_rights_and_leaves_no_core() {
    let stage = Stage::new();
    let output = stage.run("grep NoNewPrivs /proc/self/status; ulimit -c");
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(said.contains("NoNewPrivs:\t1") && said.ends_with("\n0\n"), "{said}");
    let missing =
        Command::new(env!("CARGO_BIN_EXE_herdsman")).args(["confined", "--", "/nowhere/x"]).output().unwrap();
    let said = String::from_utf8_lossy(&missing.stderr).into_owned();
    assert!(missing.status.code() == Some(1) && said.contains("cannot start /nowhere/x"), "{said}");
}

#[test]
fn a_driver_reads_its_own_files_and_no_others() {
    let stage = Stage::new();
    let own = stage.run(&format!("cat {} && echo x > made && cat made", stage.path("jobs/u/mounts/value")));
    assert_eq!(String::from_utf8_lossy(&own.stdout), "contentx\n", "{own:?}");
    assert!(Path::new(&stage.path("jobs/u/storage/made")).exists());
    if !enforced(&own) {
        println!("skipped: this kernel has no Landlock");
        return;
    }
    for place in ["encryption.key", "jobs/other/storage/id_rsa"] {
        let output = stage.run(&format!("cat {}", stage.path(place)));
        assert!(!output.status.success() && output.stdout.is_empty(), "{place}: {output:?}");
    }
    for script in [
        format!("echo evil > {}", stage.path("jobs/u/mounts/value")),
        format!("echo evil > {}", stage.path("encryption.key")),
        format!("ls {}", stage.path("")),
    ] {
        let output = stage.run(&script);
        assert!(!output.status.success(), "{script}: {output:?}");
    }
    assert_eq!(std::fs::read_to_string(stage.path("encryption.key")).unwrap(), "content");
}
