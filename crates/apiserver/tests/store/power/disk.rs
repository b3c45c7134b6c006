//! A disk that keeps what was synced, and of the rest what luck would have.

use std::collections::{BTreeMap, BTreeSet};

use clock::{Entropy, SeededEntropy};

use super::record::Record;

/// How much of something that was not synced is there after a power loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Luck {
    Nothing,
    Everything,
    /// Any part of it: each sector, size and name as it was at any time since it was last synced.
    Anything,
}

/// A power loss.
pub(crate) struct Loss {
    pub(crate) data: Luck,
    pub(crate) sizes: Luck,
    pub(crate) names: Luck,
    /// What is written as a whole or not at all.
    pub(crate) sector: usize,
    pub(crate) entropy: SeededEntropy,
}

impl std::fmt::Display for Loss {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Loss { data, sizes, names, sector, .. } = self;
        write!(f, "data {data:?}, sizes {sizes:?}, names {names:?}, sectors of {sector}")
    }
}

impl Loss {
    /// Some loss, the same for the same seed.
    pub(crate) fn draw(seed: u64) -> Self {
        let mut entropy = SeededEntropy::new(seed);
        let mut luck = || match entropy.below(5) {
            0 => Luck::Nothing,
            1 => Luck::Everything,
            _ => Luck::Anything,
        };
        let (data, sizes, names) = (luck(), luck(), luck());
        let sector = [512, 4096][entropy.below(2) as usize];
        Loss { data, sizes, names, sector, entropy }
    }

    /// Nothing is lost, as when only the process ends.
    pub(crate) fn none() -> Self {
        let all = Luck::Everything;
        Loss { data: all, sizes: all, names: all, sector: 512, entropy: SeededEntropy::new(0) }
    }

    /// How many of `happened` are there.
    fn of(&mut self, luck: Luck, happened: usize) -> usize {
        match luck {
            Luck::Nothing => 0,
            Luck::Everything => happened,
            Luck::Anything => self.entropy.below(u32::try_from(happened + 1).unwrap()) as usize,
        }
    }
}

#[derive(Clone, Debug)]
enum Change {
    Write { offset: usize, data: Vec<u8> },
    Cut(usize),
}

impl Change {
    fn size_after(&self, size: usize) -> usize {
        match self {
            Change::Write { offset, data } => size.max(offset + data.len()),
            Change::Cut(length) => *length,
        }
    }

    /// The bytes that it touches in a file that is never longer than `longest`.
    fn range(&self, longest: usize) -> std::ops::Range<usize> {
        match self {
            Change::Write { offset, data } => *offset..offset + data.len(),
            Change::Cut(length) => *length..longest,
        }
    }
}

#[derive(Clone, Debug, Default)]
struct File {
    durable: Vec<u8>,
    /// What happened since.
    pending: Vec<Change>,
}

impl File {
    fn sync(&mut self) {
        for change in std::mem::take(&mut self.pending) {
            self.durable.resize(change.size_after(self.durable.len()), 0);
            if let Change::Write { offset, data } = change {
                self.durable[offset..offset + data.len()].copy_from_slice(&data);
            }
        }
    }

    /// What a loss leaves: every sector as it was at some time, and some size that the file had.
    fn after(&self, loss: &mut Loss) -> Vec<u8> {
        let mut sizes = vec![self.durable.len()];
        for change in &self.pending {
            sizes.push(change.size_after(sizes[sizes.len() - 1]));
        }
        let longest = sizes.iter().copied().max().unwrap_or(0);
        let sectors = |change: &Change| {
            let range = change.range(longest);
            let last =
                if range.is_empty() { range.start / loss.sector } else { (range.end - 1) / loss.sector + 1 };
            range.start / loss.sector..last
        };
        let mut touched: BTreeMap<usize, usize> = BTreeMap::new();
        let spans: Vec<_> = self.pending.iter().map(sectors).collect();
        spans.iter().flat_map(Clone::clone).for_each(|sector| *touched.entry(sector).or_default() += 1);
        for count in touched.values_mut() {
            *count = loss.of(loss.data, *count);
        }
        let mut bytes = self.durable.clone();
        bytes.resize(longest, 0);
        for (change, span) in self.pending.iter().zip(spans) {
            let range = change.range(longest);
            for sector in span {
                let Some(left) = touched.get_mut(&sector).filter(|left| **left > 0) else { continue };
                *left -= 1;
                let part = range.start.max(sector * loss.sector)..range.end.min((sector + 1) * loss.sector);
                match change {
                    Change::Write { offset, data } => {
                        bytes[part.clone()].copy_from_slice(&data[part.start - offset..part.end - offset]);
                    }
                    Change::Cut(_) => bytes[part].fill(0),
                }
            }
        }
        bytes.resize(sizes[loss.of(loss.sizes, self.pending.len())], 0);
        bytes
    }
}

/// What has a name: a file by its number, or a directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Node {
    File(usize),
    Directory,
}

/// Names that change together: what they are from then on.
type Renaming = Vec<(String, Option<Node>)>;

/// The disk under a process. It follows the records one by one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Disk {
    files: Vec<File>,
    /// Which file or directory an inode stands for at present.
    inodes: BTreeMap<u64, Place>,
    /// The names as the process sees them.
    names: BTreeMap<String, Node>,
    durable_names: BTreeMap<String, Node>,
    pending_names: Vec<Renaming>,
}

#[derive(Clone, Debug)]
enum Place {
    File(usize),
    Directory(String),
}

/// The files of a disk, by path.
pub(crate) type Image = BTreeMap<String, Vec<u8>>;

impl Disk {
    pub(crate) fn apply(&mut self, record: &Record) {
        match record {
            Record::MakeDirectory { path, inode } => {
                self.inodes.insert(*inode, Place::Directory(path.clone()));
                self.rename(vec![(path.clone(), Some(Node::Directory))]);
            }
            Record::MakeFile { path, inode } => {
                self.inodes.insert(*inode, Place::File(self.files.len()));
                self.rename(vec![(path.clone(), Some(Node::File(self.files.len())))]);
                self.files.push(File::default());
            }
            Record::Write { inode, offset, data } => {
                self.change(*inode, Change::Write { offset: *offset, data: data.clone() });
            }
            Record::Cut { inode, length } => self.change(*inode, Change::Cut(*length)),
            Record::Sync { inode } => match self.inodes[inode].clone() {
                Place::File(file) => self.files[file].sync(),
                Place::Directory(path) => self.sync_names(&path),
            },
            Record::Remove { path } => self.rename(vec![(path.clone(), None)]),
            Record::Rename { from, to } => {
                let node = self.names[from];
                self.rename(vec![(from.clone(), None), (to.clone(), Some(node))]);
            }
            Record::Link { from, to } => self.rename(vec![(to.clone(), Some(self.names[from]))]),
            Record::Said(_) => {}
        }
    }

    fn change(&mut self, inode: u64, change: Change) {
        let Place::File(file) = self.inodes[&inode] else { panic!("a directory is written to") };
        self.files[file].pending.push(change);
    }

    fn rename(&mut self, change: Renaming) {
        set(&mut self.names, &change);
        self.pending_names.push(change);
    }

    fn sync_names(&mut self, directory: &str) {
        let here = |(path, _): &(String, _)| parent(path) == directory;
        let (synced, pending): (Vec<Renaming>, Vec<Renaming>) =
            std::mem::take(&mut self.pending_names).into_iter().partition(|change| change.iter().any(here));
        self.pending_names = pending;
        synced.iter().for_each(|change| set(&mut self.durable_names, change));
    }

    /// What a loss leaves, below the directory `root` that was there from the start.
    pub(crate) fn after(&self, root: &str, loss: &mut Loss) -> Image {
        let mut names = self.durable_names.clone();
        for change in &self.pending_names {
            if loss.of(loss.names, 1) == 1 {
                set(&mut names, change);
            }
        }
        names.insert(root.to_owned(), Node::Directory);
        let directories: BTreeSet<&str> =
            names.iter().filter(|(_, node)| **node == Node::Directory).map(|(path, _)| &**path).collect();
        let reachable = |path: &str| {
            let mut up = path;
            while up != root && directories.contains(parent(up)) {
                up = parent(up);
            }
            up == root
        };
        // One file with two names is one file: its fate is drawn once.
        let mut contents: BTreeMap<usize, Vec<u8>> = BTreeMap::new();
        let mut image = Image::new();
        for (path, node) in names.iter().filter(|(path, _)| reachable(path)) {
            if let Node::File(file) = node {
                let bytes = contents.entry(*file).or_insert_with(|| self.files[*file].after(loss));
                image.insert(path.clone(), bytes.clone());
            }
        }
        image
    }
}

fn set(names: &mut BTreeMap<String, Node>, change: &Renaming) {
    for (path, node) in change {
        match node {
            Some(node) => names.insert(path.clone(), *node),
            None => names.remove(path),
        };
    }
}

fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(parent, _)| parent)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOT: &str = "/r";

    fn disk(records: &[Record]) -> Disk {
        let mut disk = Disk::default();
        disk.apply(&Record::MakeDirectory { path: ROOT.into(), inode: 1 });
        records.iter().for_each(|record| disk.apply(record));
        disk
    }

    fn file(inode: u64, name: &str) -> Record {
        Record::MakeFile { path: format!("{ROOT}/{name}"), inode }
    }

    fn write(inode: u64, offset: usize, data: &[u8]) -> Record {
        Record::Write { inode, offset, data: data.to_vec() }
    }

    /// All images that some hundred losses leave.
    fn images(disk: &Disk) -> BTreeSet<Image> {
        (0..300).map(|seed| disk.after(ROOT, &mut Loss::draw(seed))).collect()
    }

    fn image(files: &[(&str, &[u8])]) -> Image {
        files.iter().map(|(name, bytes)| (format!("{ROOT}/{name}"), bytes.to_vec())).collect()
    }

    #[test]
    fn what_is_synced_stays() {
        let synced =
            [file(2, "a"), write(2, 0, b"one"), Record::Sync { inode: 2 }, Record::Sync { inode: 1 }];
        assert_eq!(images(&disk(&synced)), [image(&[("a", b"one")])].into());
    }

    #[test]
    fn a_name_needs_its_own_sync_and_so_do_those_of_directories() {
        let unnamed = disk(&[file(2, "a"), write(2, 0, b"one"), Record::Sync { inode: 2 }]);
        assert_eq!(images(&unnamed), [image(&[]), image(&[("a", b"one")])].into());
        let nested = disk(&[
            Record::MakeDirectory { path: "/r/d".into(), inode: 5 },
            file(2, "d/a"),
            Record::Sync { inode: 5 },
        ]);
        assert_eq!(images(&nested), [image(&[]), image(&[("d/a", b"")])].into());
    }

    #[test]
    fn a_renaming_happens_or_not() {
        let renamed = disk(&[
            file(2, "a"),
            write(2, 0, b"new"),
            file(3, "b"),
            write(3, 0, b"old"),
            Record::Sync { inode: 2 },
            Record::Sync { inode: 3 },
            Record::Sync { inode: 1 },
            Record::Link { from: "/r/b".into(), to: "/r/c".into() },
            Record::Sync { inode: 1 },
            Record::Rename { from: "/r/a".into(), to: "/r/b".into() },
        ]);
        let before = image(&[("a", b"new"), ("b", b"old"), ("c", b"old")]);
        let after = image(&[("b", b"new"), ("c", b"old")]);
        assert_eq!(images(&renamed), [before, after].into());
    }

    #[test]
    fn each_sector_is_as_it_once_was() {
        let two = [[b'a'; 512], [b'b'; 512]].concat();
        let torn = disk(&[
            file(2, "a"),
            write(2, 0, &two),
            Record::Sync { inode: 2 },
            Record::Sync { inode: 1 },
            write(2, 510, b"xxxx"),
            write(2, 511, b"y"),
        ]);
        let found: BTreeSet<Vec<u8>> =
            images(&torn).iter().map(|image| image["/r/a"][509..515].to_vec()).collect();
        // The first sector has three pasts, the second one two; each can be lost without the other.
        let expected = ["aaabbb", "axxbbb", "axybbb", "aaaxxb", "axxxxb", "axyxxb"];
        assert_eq!(found, expected.map(|text| text.as_bytes().to_vec()).into());
    }

    #[test]
    fn a_size_may_be_old_and_may_be_ahead_of_its_data() {
        let grown = disk(&[file(2, "a"), Record::Sync { inode: 1 }, write(2, 0, b"x")]);
        let found: BTreeSet<Vec<u8>> = images(&grown).iter().map(|image| image["/r/a"].clone()).collect();
        assert_eq!(found, [b"".to_vec(), b"\0".to_vec(), b"x".to_vec()].into());
        let cut = disk(&[
            file(2, "a"),
            write(2, 0, b"xyz"),
            Record::Sync { inode: 1 },
            Record::Sync { inode: 2 },
            Record::Cut { inode: 2, length: 1 },
        ]);
        let found: BTreeSet<Vec<u8>> = images(&cut).iter().map(|image| image["/r/a"].clone()).collect();
        assert_eq!(found, [b"x".to_vec(), b"x\0\0".to_vec(), b"xyz".to_vec()].into());
    }
}
