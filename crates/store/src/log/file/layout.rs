//! File names in a store's directory.
//!
//! Numbers are written with sixteen hexadecimal digits, so that names sort like numbers.

use std::{
    fs,
    path::{Path, PathBuf},
};

use crate::{Error, Revision, restrict_file};

/// Files of a directory, each list in ascending order.
#[derive(Debug, Default)]
pub(crate) struct Listing {
    pub(crate) segments: Vec<(u64, PathBuf)>,
    pub(crate) snapshot_files: Vec<(Revision, PathBuf)>,
    pub(crate) spares: Vec<PathBuf>,
    /// Temporary files of an interrupted run.
    pub(crate) unfinished: Vec<PathBuf>,
}

impl Listing {
    /// Takes the rights of other users to the files away. Earlier versions created them by the umask.
    pub(crate) fn restrict_files(&self) -> Result<(), Error> {
        let segments = self.segments.iter().map(|(_, path)| path);
        let snapshot_files = self.snapshot_files.iter().map(|(_, path)| path);
        let mut files = segments.chain(snapshot_files).chain(&self.spares);
        files.try_for_each(|path| restrict_file(path))
    }
}

pub(crate) fn lock(dir: &Path) -> PathBuf {
    dir.join("lock")
}

pub(crate) fn ack_marker(dir: &Path) -> PathBuf {
    dir.join("acknowledged")
}

pub(crate) fn segment(dir: &Path, number: u64) -> PathBuf {
    dir.join(format!("segment-{number:016x}.log"))
}

pub(crate) fn spare(dir: &Path, number: u64) -> PathBuf {
    dir.join(format!("spare-{number:016x}.log"))
}

pub(crate) fn snapshot_file(dir: &Path, revision: Revision) -> PathBuf {
    dir.join(format!("image-{:016x}.img", revision.get()))
}

/// Temporary name of a file until it is complete.
pub(crate) fn unfinished(path: &Path) -> PathBuf {
    path.with_added_extension("tmp")
}

/// Lists the files of `dir` by their type. Files with other names are ignored.
pub(crate) fn list(dir: &Path) -> Result<Listing, Error> {
    let mut listing = Listing::default();
    for entry in fs::read_dir(dir).map_err(Error::io("list", dir))? {
        let path = entry.map_err(Error::io("list", dir))?.path();
        let Some(name) = path.file_name().and_then(|name| name.to_str()) else {
            continue;
        };
        if let Some(number) = number(name, "segment-", ".log") {
            listing.segments.push((number, path));
        } else if let Some(revision) = number(name, "image-", ".img") {
            listing.snapshot_files.push((Revision::new(revision), path));
        } else if number(name, "spare-", ".log").is_some() {
            listing.spares.push(path);
        } else if name.ends_with(".tmp") {
            listing.unfinished.push(path);
        }
    }
    listing.segments.sort();
    listing.snapshot_files.sort();
    listing.spares.sort();
    Ok(listing)
}

fn number(name: &str, before: &str, after: &str) -> Option<u64> {
    let digits = name.strip_prefix(before)?.strip_suffix(after)?;
    u64::from_str_radix(digits, 16).ok()
}
