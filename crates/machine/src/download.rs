//! Drivers from elsewhere: downloaded once, checked, kept.

mod fetch;
mod unpack;

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256, Sha512};

pub use fetch::Error as FetchError;
pub use outbound::proxy::Proxies;
pub use unpack::program;

/// What every driver's program begins with.
pub const PREFIX: &str = "docker-machine-driver-";

/// A driver that is downloaded.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    /// The driver's name.
    pub driver: &'a str,
    /// Where it is.
    pub url: &'a str,
    /// Digest of the download, in hex: SHA-256 or SHA-512, by its length. What has none is not downloaded: it is run.
    pub checksum: &'a str,
    /// Whom to trust beside the system's authorities, as PEM.
    pub authorities: &'a str,
}

/// Why a driver is not there.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It was not downloaded.
    #[error(transparent)]
    Fetch(#[from] FetchError),
    /// It is another one.
    #[error(
        "{url} has the checksum {found}, not {wanted}: the file changed, or the checksum is of another one"
    )]
    OtherChecksum {
        /// Which download.
        url: String,
        /// What it is.
        found: String,
        /// What it should be.
        wanted: String,
    },
    /// The checksum is none that proves anything.
    #[error("checksum: {0:?} is not the SHA-256 of the download in hex; give that (`sha256sum FILE`)")]
    NoChecksum(String),
    /// There is no driver in it.
    #[error("{url} is not a driver: {reason}")]
    NoDriver {
        /// Which download.
        url: String,
        /// Why not.
        reason: String,
    },
    /// It cannot be kept.
    #[error("cannot write {}: {source}", path.display())]
    File {
        /// Where.
        path: PathBuf,
        /// What the operating system says.
        source: io::Error,
    },
}

/// Where a driver's program is or will be kept.
fn place(directory: &Path, wanted: &Wanted<'_>) -> PathBuf {
    let name = hex(&Sha256::digest(format!("{} {}", wanted.url, wanted.checksum)));
    directory.join(&name[..32])
}

/// The directory with a driver's program in it, if it was downloaded before. Nothing is fetched.
pub fn kept(directory: &Path, wanted: &Wanted<'_>) -> Option<PathBuf> {
    let kept = place(directory, wanted);
    kept.join(program_name(wanted.driver)).is_file().then_some(kept)
}

/// The directory with a driver's program in it, `docker-machine-driver-<name>`; downloaded unless it is there.
///
/// # Errors
/// If it is not to be had, or is not what it should be. Nothing is left then.
pub async fn provide(directory: &Path, wanted: &Wanted<'_>, proxies: &Proxies) -> Result<PathBuf, Error> {
    if let Some(kept) = kept(directory, wanted) {
        return Ok(kept);
    }
    let kept = place(directory, wanted);
    let program = kept.join(program_name(wanted.driver));
    let digest = Digests::of(wanted.checksum)?;
    let download = fetch::get(wanted.url, wanted.authorities, proxies).await?;
    verify(wanted, digest, &download)?;
    let content =
        unpack::program(&download).map_err(|reason| Error::NoDriver { url: wanted.url.into(), reason })?;
    keep(&kept, &program, &content)?;
    Ok(kept)
}

/// How a driver's program is called.
pub fn program_name(driver: &str) -> String {
    format!("{PREFIX}{driver}")
}

/// Digests that nobody finds a second file for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Digests {
    Sha256,
    Sha512,
}

impl Digests {
    /// Which of them a checksum is.
    fn of(checksum: &str) -> Result<Self, Error> {
        let is_hex = checksum.bytes().all(|byte| byte.is_ascii_hexdigit());
        match checksum.len() {
            64 if is_hex => Ok(Digests::Sha256),
            128 if is_hex => Ok(Digests::Sha512),
            _ => Err(Error::NoChecksum(checksum.into())),
        }
    }
}

fn verify(wanted: &Wanted<'_>, digest: Digests, download: &[u8]) -> Result<(), Error> {
    let found = match digest {
        Digests::Sha256 => hex(&Sha256::digest(download)),
        Digests::Sha512 => hex(&Sha512::digest(download)),
    };
    if found.eq_ignore_ascii_case(wanted.checksum) {
        return Ok(());
    }
    Err(Error::OtherChecksum { url: wanted.url.into(), found, wanted: wanted.checksum.into() })
}

/// Whole or not at all: it is written aside and moved.
fn keep(kept: &Path, program: &Path, content: &[u8]) -> Result<(), Error> {
    let new = program.with_extension("new");
    let write = || {
        fs::create_dir_all(kept)?;
        fs::write(&new, content)?;
        fs::set_permissions(&new, fs::Permissions::from_mode(0o755))?;
        fs::File::open(&new)?.sync_all()?;
        fs::rename(&new, program)
    };
    write().map_err(|source| Error::File { path: program.into(), source })
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::net::TcpListener;

    use super::*;

    /// Serves the same bytes to so many requests; the first one is sent elsewhere first.
    fn serve(content: Vec<u8>, requests: usize) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            for number in 0..requests {
                let (mut stream, _) = listener.accept().unwrap();
                let mut head = Vec::new();
                let mut byte = [0];
                while !head.ends_with(b"\r\n\r\n") {
                    io::Read::read_exact(&mut stream, &mut byte).unwrap();
                    head.push(byte[0]);
                }
                if number == 0 {
                    stream
                        .write_all(b"HTTP/1.1 302 Found\r\nLocation: /other\r\nContent-Length: 0\r\n\r\n")
                        .unwrap();
                    continue;
                }
                let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", content.len());
                stream.write_all(answer.as_bytes()).unwrap();
                stream.write_all(&content).unwrap();
            }
        });
        format!("http://{address}/docker-machine-driver-x")
    }

    #[tokio::test]
    async fn a_driver_is_downloaded_once_and_checked() {
        let directory = tempfile::tempdir().unwrap();
        let content = b"\x7fELF and so on".to_vec();
        let checksum = hex(&Sha256::digest(&content));
        let url = serve(content.clone(), 2);
        let wanted = Wanted { driver: "x", url: &url, checksum: &checksum, authorities: "" };
        assert_eq!(super::kept(directory.path(), &wanted), None);
        let kept = provide(directory.path(), &wanted, &Proxies::default()).await.unwrap();
        assert_eq!(super::kept(directory.path(), &wanted).as_ref(), Some(&kept));
        assert_eq!(fs::read(kept.join("docker-machine-driver-x")).unwrap(), content);
        let again = provide(directory.path(), &wanted, &Proxies::default()).await.unwrap();
        assert_eq!(again, kept, "nobody is asked again");
    }

    #[tokio::test]
    async fn another_file_is_refused_and_not_kept() {
        let directory = tempfile::tempdir().unwrap();
        let url = serve(b"\x7fELF evil".to_vec(), 2);
        let checksum = "0".repeat(64);
        let wanted = Wanted { driver: "x", url: &url, checksum: &checksum, authorities: "" };
        let error = provide(directory.path(), &wanted, &Proxies::default()).await.unwrap_err();
        assert!(matches!(error, Error::OtherChecksum { .. }), "{error}");
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
    }

    #[tokio::test]
    async fn a_driver_without_a_sha_256_is_not_even_fetched() {
        let directory = tempfile::tempdir().unwrap();
        // Nobody serves this: an attempt to fetch it would be another error.
        let url = "http://127.0.0.1:1/docker-machine-driver-x";
        let (md5, sha1, no_hex) = ("0".repeat(32), "0".repeat(40), "x".repeat(64));
        for checksum in ["", "abc", &md5, &sha1, &no_hex] {
            let wanted = Wanted { driver: "x", url, checksum, authorities: "" };
            let error = provide(directory.path(), &wanted, &Proxies::default()).await.unwrap_err();
            assert!(matches!(error, Error::NoChecksum(_)), "{checksum}: {error}");
        }
    }
}
