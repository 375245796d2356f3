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

/// The regular files of an archive that is not compressed. A long path is in an entry of its own before that of its file:
/// type `x` in POSIX archives, `L` in those of GNU tar.
pub fn read_archive(archive: &[u8]) -> Result<Contents> {
    let (mut contents, mut rest) = (Contents::new(), archive);
    let mut long_path = None;
    while let Some((header, after)) = rest.split_at_checked(BLOCK) {
        if header.iter().all(|byte| *byte == 0) {
            break;
        }
        let size = octal(&header[124..136])?;
        let Some((data, _)) = after.split_at_checked(size) else {
            bail!("the tarball is incomplete");
        };
        match header[156] {
            b'x' => long_path = pax_path(data)?.or(long_path),
            b'L' => long_path = Some(text_before_zero(data)),
            kind => {
                let path = long_path.take().unwrap_or_else(|| header_path(header));
                let path = safe_path(&path)?;
                if matches!(kind, b'0' | 0) && !path.is_empty() {
                    contents.insert(path, data.to_vec());
                }
            }
        }
        rest = after.get(size.next_multiple_of(BLOCK)..).unwrap_or_default();
    }
    Ok(contents)
}

/// The path in a POSIX extended header: records `LENGTH KEY=VALUE`, each of so many bytes and with a line break at its end.
fn pax_path(mut records: &[u8]) -> Result<Option<String>> {
    let mut path = None;
    while !records.is_empty() {
        let digits = records.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let length = std::str::from_utf8(&records[..digits]).ok();
        let length = length.and_then(|text| text.parse().ok());
        let record = length.and_then(|length: usize| records.split_at_checked(length));
        let Some((record, rest)) = record.filter(|(record, _)| record.len() > digits) else {
            bail!("the tarball has an invalid extended header");
        };
        if let Some(value) = record[digits..].strip_prefix(b" path=") {
            let value = value.strip_suffix(b"\n").unwrap_or(value);
            path = Some(String::from_utf8_lossy(value).into_owned());
        }
        records = rest;
    }
    Ok(path)
}

fn header_path(header: &[u8]) -> String {
    let (name, prefix) = (
        text_before_zero(&header[0..100]),
        text_before_zero(&header[345..500]),
    );
    match prefix.is_empty() {
        true => name,
        false => format!("{prefix}/{name}"),
    }
}

fn text_before_zero(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

fn safe_path(path: &str) -> Result<String> {
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

    /// An entry of this type and name.
    fn entry(kind: u8, name: &str, data: &[u8]) -> Vec<u8> {
        let mut bytes = header(name, data.len()).unwrap().to_vec();
        bytes[156] = kind;
        bytes.extend_from_slice(data);
        bytes.resize(bytes.len().next_multiple_of(BLOCK), 0);
        bytes
    }

    #[test]
    fn a_long_path_is_in_an_entry_before_that_of_its_file() {
        let long = format!("templates/{}.yaml", "n".repeat(300));
        let record = format!(" path={long}\n");
        let pax = format!("{}{record}", record.len() + 3);
        let short = &long[..100];
        for (kind, data) in [(b'x', pax.into_bytes()), (b'L', format!("{long}\0").into_bytes())] {
            let archive = [
                entry(kind, "header", &data),
                entry(b'0', short, b"one"),
                entry(b'0', "b", b"two"),
            ];
            let names: Vec<String> = read_archive(&archive.concat()).unwrap().into_keys().collect();
            assert_eq!(names, ["b".to_owned(), long.clone()]);
        }
        let unsafe_path = [entry(b'x', "header", b"16 path=../../a\n"), entry(b'0', "a", b"")];
        assert!(read_archive(&unsafe_path.concat()).is_err());
        assert!(read_archive(&entry(b'x', "header", b"99 path=a\n")).is_err());
    }
}
