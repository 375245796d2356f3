//! Tarballs of packages: gzipped ustar archives of regular files. They are reproducible: times and owners are fixed.

use std::io::{Read, Write};

use anyhow::{Context, Result, bail};
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;

use super::files::Contents;

const BLOCK: usize = 512;
/// Larger archives are rejected: a package is text.
const MAX_BYTES: u64 = 64 << 20;

/// Packs files.
pub fn pack(contents: &Contents) -> Result<Vec<u8>> {
    let mut archive = GzEncoder::new(Vec::new(), Compression::default());
    for (path, bytes) in contents {
        archive.write_all(&header(path, bytes.len())?)?;
        archive.write_all(bytes)?;
        archive.write_all(&vec![0; bytes.len().next_multiple_of(BLOCK) - bytes.len()])?;
    }
    archive.write_all(&[0; 2 * BLOCK])?;
    Ok(archive.finish()?)
}

/// Unpacks the regular files of an archive. Paths that lead out of it are an error.
pub fn unpack(bytes: &[u8]) -> Result<Contents> {
    let mut archive = Vec::new();
    let decoder = GzDecoder::new(bytes);
    decoder
        .take(MAX_BYTES + 1)
        .read_to_end(&mut archive)
        .context("the package is not a gzipped tarball")?;
    if archive.len() as u64 > MAX_BYTES {
        bail!("the package is larger than {MAX_BYTES} bytes");
    }
    read_archive(&archive)
}

/// The regular files of an archive that is not compressed.
pub fn read_archive(archive: &[u8]) -> Result<Contents> {
    let (mut contents, mut rest) = (Contents::new(), archive);
    while let Some((header, after)) = rest.split_at_checked(BLOCK) {
        if header.iter().all(|byte| *byte == 0) {
            break;
        }
        let size = octal(&header[124..136])?;
        let Some((data, _)) = after.split_at_checked(size) else {
            bail!("the tarball is incomplete");
        };
        let path = entry_path(header)?;
        if matches!(header[156], b'0' | 0) && !path.is_empty() {
            contents.insert(path, data.to_vec());
        }
        rest = after.get(size.next_multiple_of(BLOCK)..).unwrap_or_default();
    }
    Ok(contents)
}

fn entry_path(header: &[u8]) -> Result<String> {
    let field = |range: std::ops::Range<usize>| {
        let bytes = &header[range];
        let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
        String::from_utf8_lossy(&bytes[..end]).into_owned()
    };
    let (name, prefix) = (field(0..100), field(345..500));
    let path = match prefix.is_empty() {
        true => name,
        false => format!("{prefix}/{name}"),
    };
    let path = path.trim_start_matches("./").trim_start_matches('/').to_owned();
    match path.split('/').any(|part| part == "..") {
        true => bail!("the tarball has an unsafe path {path:?}"),
        false => Ok(path),
    }
}

fn octal(field: &[u8]) -> Result<usize> {
    let text: String = field
        .iter()
        .map(|byte| char::from(*byte))
        .filter(char::is_ascii_digit)
        .collect();
    usize::from_str_radix(&text, 8).context("the tarball has an invalid header")
}

fn header(path: &str, size: usize) -> Result<[u8; BLOCK]> {
    let (prefix, name) = match path.len() > 100 {
        false => ("", path),
        true => path.rsplit_once('/').unwrap_or(("", path)),
    };
    if name.len() > 100 || prefix.len() > 155 {
        bail!("the path {path:?} is too long for a tarball");
    }
    let mut header = [0; BLOCK];
    let mut put = |at: usize, bytes: &[u8]| header[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, name.as_bytes());
    put(100, b"0000644\0");
    put(108, b"0000000\0");
    put(116, b"0000000\0");
    put(124, format!("{size:011o}\0").as_bytes());
    put(136, b"00000000000\0");
    put(148, b"        ");
    put(156, b"0");
    put(257, b"ustar\x0000");
    put(265, b"root");
    put(297, b"root");
    put(345, prefix.as_bytes());
    let sum: u32 = header.iter().map(|byte| u32::from(*byte)).sum();
    header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    Ok(header)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(contents: &[(&str, &[u8])]) {
        let contents = contents
            .iter()
            .map(|(path, bytes)| ((*path).to_owned(), bytes.to_vec()));
        let contents: Contents = contents.collect();
        assert_eq!(unpack(&pack(&contents).unwrap()).unwrap(), contents);
    }

    /// TO7
    #[test]
    fn a_package_is_unpacked_as_it_was_packed() {
        check(&[
            ("operator.yaml", b"name: a\n"),
            ("templates/x.yaml", &[b'y'; 600]),
        ]);
        check(&[(&format!("{}/{}", "d".repeat(90), "f".repeat(50)), b"")]);
        check(&[]);
    }

    /// TO7
    #[test]
    fn a_path_out_of_the_package_is_an_error() {
        let contents: Contents = [("../a".to_owned(), Vec::new())].into();
        let error = unpack(&pack(&contents).unwrap()).unwrap_err();
        assert_eq!(error.to_string(), "the tarball has an unsafe path \"../a\"");
    }

    /// TO7
    #[test]
    fn other_bytes_are_an_error() {
        assert!(unpack(b"hello").is_err());
    }
}
