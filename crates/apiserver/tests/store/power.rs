//! Power losses: a process at work is recorded, and started again on what a disk may have kept of its files.

mod disk;
mod faults;
mod record;
mod story;
mod work;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use apiserver::store::SqliteStore;
use clock::{Entropy, SeededEntropy};
use jiff::Timestamp;
use tempfile::TempDir;

use self::disk::{Disk, Image, Loss};
use self::record::{Record, Recorder};
use self::story::Story;
use crate::support::runtime;

const SEED: &str = "STORE_POWER_SEED";
const IMAGES: u64 = 300;

#[test]
#[ignore = "child process: one that the tests below record"]
fn victim() {
    // Somebody runs all ignored tests.
    let Ok(root) = std::env::var(work::ROOT) else { return };
    work::run(Path::new(&root));
}

/// What a process did to its files.
struct Recording {
    root: String,
    records: Vec<Record>,
    copy: Story,
}

impl Recording {
    /// A new one, checked: what the disk of the records has in the end is what is really there.
    fn make() -> Self {
        let directory = TempDir::new().unwrap();
        let path = directory.path().canonicalize().unwrap();
        let root = path.to_str().unwrap().to_owned();
        let mut victim = Command::new(std::env::current_exe().unwrap());
        victim.args(["power::victim", "--exact", "--ignored", "--test-threads=1"]).env(work::ROOT, &root);
        let records = Recorder::new().run(victim, &path);
        let mut disk = Disk::default();
        records.iter().for_each(|record| disk.apply(record));
        let mut image = disk.after(&root, &mut Loss::none());
        image.retain(|path, _| !path.ends_with("-shm"));
        let there = files(&path);
        assert_eq!(image.keys().collect::<Vec<_>>(), there.keys().collect::<Vec<_>>());
        assert!(image == there, "the recorder missed something");
        let copy = Story::of_copy(&records);
        Recording { root, records, copy }
    }

    /// Starts the store on what losses at the given points leave, each with its seed. Gives what went wrong, up to so
    /// many.
    fn lose(&self, points: &[(usize, u64)], most: usize) -> Vec<String> {
        let mut points = points.to_vec();
        points.sort_unstable();
        let (mut disk, mut story, mut passed) = (Disk::default(), Story::default(), 0);
        let mut wrong = Vec::new();
        for (point, seed) in points {
            for record in &self.records[passed..point] {
                disk.apply(record);
                if let Record::Said(words) = record {
                    story.hear(words);
                    if words.starts_with("restored") {
                        story.go_back(&self.copy);
                    }
                }
            }
            passed = point;
            let image = disk.after(&self.root, &mut Loss::draw(seed));
            if let Err(error) = self.start(&image, &story, seed) {
                wrong.push(format!("point {point}, seed {seed}, {}: {error}", Loss::draw(seed)));
                if wrong.len() == most {
                    break;
                }
            }
        }
        wrong
    }

    fn start(&self, image: &Image, story: &Story, seed: u64) -> Result<(), String> {
        let place = quick_directory();
        lay_out(image, &self.root, place.path(), seed);
        let data = place.path().join(work::DATA);
        let restored = story.after_restore(&self.copy);
        let holds = |story: &Story, directory: &Path| runtime().block_on(story.holds(directory));
        let old = data.join("herdsman.db.replaced-1");
        let kept = place.path().join("kept");
        if old.exists() && story.restoring {
            std::fs::create_dir(&kept).unwrap();
            std::fs::copy(&old, kept.join("herdsman.db")).unwrap();
        }
        match (holds(story, &data), story.restoring) {
            (Err(error), true) => {
                holds(&restored, &data).map_err(|other| format!("neither: {error}; nor: {other}"))?;
                holds(story, &kept).map_err(|error| format!("the replaced store: {error}"))?;
            }
            (result, _) => result?,
        }
        if story.is_restored() && !old.exists() {
            return Err("the replaced store is gone".into());
        }
        if story.copied.is_some() && seed.is_multiple_of(4) {
            let elsewhere = place.path().join("elsewhere");
            let copy = place.path().join("copies/copy.db");
            SqliteStore::restore(&copy, &elsewhere, Timestamp::UNIX_EPOCH)
                .map_err(|error| format!("the backup: {error}"))?;
            holds(&self.copy, &elsewhere).map_err(|error| format!("the backup: {error}"))?;
        }
        Ok(())
    }

    /// Points to lose power at: anywhere, and more often around the moments that matter.
    fn points(&self, count: u64, seed: u64) -> Vec<(usize, u64)> {
        let mut entropy = SeededEntropy::new(seed);
        let is_moment = |at: &usize| !matches!(self.records[*at], Record::Write { .. } | Record::Said(_));
        let moments: Vec<usize> = (0..self.records.len()).filter(is_moment).collect();
        let said = |words: &str| {
            let found = self
                .records
                .iter()
                .position(|record| matches!(record, Record::Said(said) if said.starts_with(words)));
            found.unwrap()
        };
        let restore: Vec<usize> = (said("restoring")..=said("restored")).filter(is_moment).collect();
        let mut one_of =
            |points: &[usize]| points[entropy.below(u32::try_from(points.len()).unwrap()) as usize];
        let anywhere: Vec<usize> = (0..self.records.len()).collect();
        (0..count)
            .map(|number| {
                let before = one_of([&anywhere[..], &moments, &moments, &restore][(number % 4) as usize]);
                (before + one_of(&[0, 1]), seed.wrapping_mul(1_000_003).wrapping_add(number * number))
            })
            .collect()
    }

    /// How often SQLite's log was begun again after all of it had been folded into the database: the moment when a sync
    /// that is missing or in the wrong place does most harm.
    fn turns_of_the_log(&self) -> usize {
        // Logs by their inode, which a later file may take over, and whether they were begun.
        let mut logs: BTreeMap<u64, bool> = BTreeMap::new();
        let mut turns = 0;
        for record in &self.records {
            match record {
                Record::MakeFile { path, inode } if path.ends_with("-wal") => {
                    logs.insert(*inode, false);
                }
                Record::MakeFile { inode, .. } => {
                    logs.remove(inode);
                }
                Record::Write { inode, offset: 0, .. } => {
                    if let Some(begun) = logs.get_mut(inode) {
                        turns += usize::from(std::mem::replace(begun, true));
                    }
                }
                _ => {}
            }
        }
        turns
    }

    /// The same work on a disk that does not heed some syncs, once the first words have been said.
    fn without_syncs(&self, of: impl Fn(&str) -> bool) -> Recording {
        let (mut names, mut at_work) = (BTreeMap::new(), false);
        let heeded = |record: &&Record| match record {
            Record::MakeFile { path, inode } | Record::MakeDirectory { path, inode } => {
                names.insert(*inode, path.clone());
                true
            }
            Record::Sync { inode } => !at_work || !of(&names[inode]),
            Record::Said(_) => {
                at_work = true;
                true
            }
            _ => true,
        };
        let records = self.records.iter().filter(heeded).cloned().collect();
        Recording { root: self.root.clone(), records, copy: self.copy.clone() }
    }
}

/// A directory in memory, where there is one: here nothing has to last.
fn quick_directory() -> TempDir {
    TempDir::new_in("/dev/shm").or_else(|_| TempDir::new()).unwrap()
}

/// All files below a directory, but for the shared memory of SQLite and what was said.
fn files(directory: &Path) -> Image {
    let mut found = Image::new();
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let name = path.to_str().unwrap().to_owned();
        match path.is_dir() {
            true => found.extend(files(&path)),
            false if name.ends_with("-shm") || name.ends_with("/said") => {}
            false => drop(found.insert(name, std::fs::read(&path).unwrap())),
        }
    }
    found
}

/// Makes an image's files. The index of the log that SQLite shares between processes is memory, not data: it is made
/// anew by the first who opens the store, whatever it holds, and so it holds nonsense here.
fn lay_out(image: &Image, root: &str, place: &Path, seed: u64) {
    for (path, bytes) in image {
        let target: PathBuf = place.join(path.strip_prefix(root).unwrap().trim_start_matches('/'));
        std::fs::create_dir_all(target.parent().unwrap()).unwrap();
        let mut nonsense = vec![0; 32 << 10];
        SeededEntropy::new(seed).fill(&mut nonsense);
        std::fs::write(&target, if path.ends_with("-shm") { &nonsense } else { bytes }).unwrap();
    }
}

/// One for all tests of this process.
fn recording() -> &'static Recording {
    static RECORDING: std::sync::OnceLock<Recording> = std::sync::OnceLock::new();
    RECORDING.get_or_init(Recording::make)
}

#[test]
fn after_a_power_loss_all_that_was_acknowledged_is_there_and_nothing_is_half_there() {
    let recording = recording();
    let seed = std::env::var(SEED).map_or(1, |seed| seed.parse().expect("a seed"));
    let points = recording.points(IMAGES, seed);
    let wrong = recording.lose(&points, usize::MAX);
    println!(
        "{} records, {} images, the log began again {} times",
        recording.records.len(),
        points.len(),
        recording.turns_of_the_log()
    );
    assert!(recording.turns_of_the_log() > 0, "too little work for a checkpoint");
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), points.len(), wrong.join("\n"));
}

/// What the test above rests on: a store that does not sync is found out.
#[test]
fn a_store_that_does_not_sync_loses_what_it_acknowledged() {
    let recording = recording();
    let points = recording.points(IMAGES, 1);
    for (what, of) in [
        ("the log, as with synchronous=NORMAL", (|name| name.ends_with("-wal")) as fn(&str) -> bool),
        ("the database", |name| name.ends_with("herdsman.db")),
        ("names in the directory", |name| name.ends_with("/data")),
        ("anything, as with synchronous=OFF", |_| true),
    ] {
        let forgetful = recording.without_syncs(of);
        let points: Vec<_> =
            points.iter().map(|(point, seed)| ((*point).min(forgetful.records.len()), *seed)).collect();
        let wrong = forgetful.lose(&points, 1);
        println!("{what}: {wrong:?}");
        assert!(!wrong.is_empty(), "nothing is lost without syncing {what}");
    }
}
