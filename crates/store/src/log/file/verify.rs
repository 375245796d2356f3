//! Verify: reads every stored byte of a stopped store as opening it would, and reports the result.

use std::path::{Path, PathBuf};

use crate::{
    Error, Revision,
    log::file::{layout, lock::DirLock, recover, sealed_keys::ReplayOptions, snapshot_file},
};

/// Contents of a store's directory.
#[derive(Clone, Debug)]
pub struct VerifyReport {
    /// The newest revision.
    pub revision: Revision,
    /// The revision of the newest snapshot file, if there is one.
    pub snapshot_file: Option<Revision>,
    /// The live keys.
    pub keys: u64,
    /// The segments of the log.
    pub segments: u64,
    /// The frames in them.
    pub frames: u64,
    /// The transactions after the snapshot file.
    pub records: u64,
    /// An incomplete write at the end, which the next open discards: nothing shows that it was acknowledged.
    pub torn: Option<TornTail>,
}

/// Position of an incomplete write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TornTail {
    /// The segment.
    pub file: PathBuf,
    /// Offset of the first incomplete byte range.
    pub offset: u64,
}

/// Reads and checks everything in `dir`. Fails with [`Error::Locked`] if the store is running.
pub(crate) fn verify(dir: &Path) -> Result<VerifyReport, Error> {
    let listing = layout::list(dir)?;
    let _lock = DirLock::take(dir)?;
    // Opening reads only the newest snapshot file; verify reads all of them.
    for (_, path) in &listing.snapshot_files {
        snapshot_file::read(path)?;
    }
    let recovered = recover::recover(dir, &listing, &ReplayOptions::default())?;
    Ok(VerifyReport {
        revision: recovered.head.revision,
        snapshot_file: recovered.snapshot_file,
        keys: recovered.head.index.map().len() as u64,
        segments: recovered.segments.len() as u64,
        frames: recovered.frames,
        records: recovered.records,
        torn: recovered.torn,
    })
}
