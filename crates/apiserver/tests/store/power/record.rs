//! What a process did to its files, as the preloaded recorder wrote it down.

use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

/// One act, or one word about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Record {
    MakeDirectory {
        path: String,
        inode: u64,
    },
    MakeFile {
        path: String,
        inode: u64,
    },
    Write {
        inode: u64,
        offset: usize,
        data: Vec<u8>,
    },
    Cut {
        inode: u64,
        length: usize,
    },
    /// Of a file or a directory.
    Sync {
        inode: u64,
    },
    Remove {
        path: String,
    },
    Rename {
        from: String,
        to: String,
    },
    Link {
        from: String,
        to: String,
    },
    /// What the process said at this point.
    Said(String),
}

/// Reads a log. Its form is described where it is written, in `shim.c`.
pub(crate) fn parse(mut log: &[u8]) -> Vec<Record> {
    let mut records = Vec::new();
    while !log.is_empty() {
        let kind = take(&mut log, 1)[0];
        let inode = u64::from_le_bytes(take(&mut log, 8).try_into().unwrap());
        let offset = u64::from_le_bytes(take(&mut log, 8).try_into().unwrap()) as usize;
        let path_length = u32::from_le_bytes(take(&mut log, 4).try_into().unwrap());
        let data_length = u32::from_le_bytes(take(&mut log, 4).try_into().unwrap());
        let path = String::from_utf8(take(&mut log, path_length as usize).to_vec()).unwrap();
        let data = take(&mut log, data_length as usize).to_vec();
        let text = || String::from_utf8(data.clone()).unwrap();
        records.push(match kind {
            b'M' => Record::MakeDirectory { path, inode },
            b'C' => Record::MakeFile { path, inode },
            b'W' => Record::Write { inode, offset, data },
            b'T' => Record::Cut { inode, length: offset },
            b'S' => Record::Sync { inode },
            b'U' => Record::Remove { path },
            b'R' => Record::Rename { from: path, to: text() },
            b'L' => Record::Link { from: path, to: text() },
            b'A' => Record::Said(text()),
            other => panic!("a record of kind {other}"),
        });
    }
    records
}

fn take<'a>(log: &mut &'a [u8], length: usize) -> &'a [u8] {
    let (taken, rest) = log.split_at(length);
    *log = rest;
    taken
}

/// The recorder, compiled with the C compiler that SQLite, which is part of every build, needs as well.
pub(crate) struct Recorder {
    scratch: TempDir,
}

impl Recorder {
    pub(crate) fn new() -> Self {
        let scratch = TempDir::new().unwrap();
        let source = scratch.path().join("shim.c");
        std::fs::write(&source, include_str!("shim.c")).unwrap();
        let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".into());
        let mut compile = Command::new(&compiler);
        compile.args(["-shared", "-fPIC", "-O1", "-o"]).arg(scratch.path().join("shim.so")).arg(&source);
        assert!(
            compile.status().is_ok_and(|status| status.success()),
            "{compiler} did not make the recorder"
        );
        Recorder { scratch }
    }

    /// Runs a program, which has to end well, and gives what it did below `root`.
    pub(crate) fn run(&self, mut program: Command, root: &Path) -> Vec<Record> {
        let (library, log) = (self.scratch.path().join("shim.so"), self.scratch.path().join("log"));
        // There is none before the first run.
        let _ = std::fs::remove_file(&log);
        program.env("LD_PRELOAD", &library).env("RECORD_LOG", &log).env("RECORD_ROOT", root);
        let output = program.output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
        parse(&std::fs::read(&log).unwrap())
    }
}
