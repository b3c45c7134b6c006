//! The program in a download: the file itself, or one in a tar.gz or zip.

use std::io::{self, Read};
use std::path::Path;

use flate2::read::GzDecoder;

use super::PREFIX;

/// Larger programs are not drivers.
const LARGEST: u64 = 512 << 20;
const ELF: &[u8] = b"\x7fELF";

/// The program in a download, whatever it is packed in.
///
/// # Errors
/// Why there is none, in words.
pub fn program(download: &[u8]) -> Result<Vec<u8>, String> {
    let found = match download {
        [0x7f, b'E', b'L', b'F', ..] => return Ok(download.to_vec()),
        [0x1f, 0x8b, ..] => from_tar(download),
        [b'P', b'K', 3, 4, ..] => from_zip(download),
        _ => return Err("it is no program, no tar.gz and no zip".into()),
    };
    found.map_err(|error| error.to_string())?.ok_or_else(|| format!("no program {PREFIX}... is in it"))
}

fn from_tar(download: &[u8]) -> io::Result<Option<Vec<u8>>> {
    let mut archive = tar::Archive::new(GzDecoder::new(download).take(LARGEST));
    for entry in archive.entries()? {
        let mut entry = entry?;
        let name = entry.path()?.into_owned();
        if entry.header().entry_type().is_file() && is_driver(&name) {
            let content = read(&mut entry)?;
            if content.starts_with(ELF) {
                return Ok(Some(content));
            }
        }
    }
    Ok(None)
}

fn from_zip(download: &[u8]) -> io::Result<Option<Vec<u8>>> {
    let mut archive = zip::ZipArchive::new(io::Cursor::new(download))?;
    for index in 0..archive.len() {
        let mut file = archive.by_index(index)?;
        let name = file.name()?.into_owned();
        if file.is_file() && is_driver(Path::new(&name)) {
            let content = read(&mut file)?;
            if content.starts_with(ELF) {
                return Ok(Some(content));
            }
        }
    }
    Ok(None)
}

fn is_driver(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(PREFIX))
}

fn read(from: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    from.take(LARGEST).read_to_end(&mut content)?;
    Ok(content)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    const PROGRAM: &[u8] = b"\x7fELF program";
    const FILES: [(&str, &[u8]); 3] = [
        ("README.md", b"read me"),
        ("bin/docker-machine-driver-x.sha256", b"abc"),
        ("bin/docker-machine-driver-x_linux", PROGRAM),
    ];

    #[test]
    fn the_program_is_found_in_whatever_it_comes() {
        assert_eq!(program(PROGRAM).as_deref(), Ok(PROGRAM));
        let mut archive = tar::Builder::new(GzEncoder::new(Vec::new(), Compression::default()));
        for (name, content) in FILES {
            let mut header = tar::Header::new_gnu();
            header.set_size(content.len() as u64);
            archive.append_data(&mut header, name, content).unwrap();
        }
        let packed = archive.into_inner().unwrap().finish().unwrap();
        assert_eq!(program(&packed).as_deref(), Ok(PROGRAM));

        let mut archive = zip::ZipWriter::new(io::Cursor::new(Vec::new()));
        for (name, content) in FILES {
            archive.start_file(name, zip::write::SimpleFileOptions::default()).unwrap();
            archive.write_all(content).unwrap();
        }
        let packed = archive.finish().unwrap().into_inner();
        assert_eq!(program(&packed).as_deref(), Ok(PROGRAM));
        assert!(program(b"<html>not found</html>").is_err());
        assert!(program(&packed[..packed.len() / 2]).is_err());
    }
}
