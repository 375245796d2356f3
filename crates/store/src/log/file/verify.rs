//! Verifying: reading every stored byte of a stopped store as a start would, and saying what was found.

use std::path::{Path, PathBuf};

use crate::{
    Error, HistoryLimits, Revision, image,
    log::file::{layout, lock::Lock, recover},
};

/// What a directory holds.
#[derive(Clone, Debug)]
pub struct VerifyReport {
    /// The newest revision.
    pub revision: Revision,
    /// The revision of the newest image, if there is one.
    pub image: Option<Revision>,
    /// The live keys.
    pub keys: u64,
    /// The segments of the log.
    pub segments: u64,
    /// The frames in them.
    pub frames: u64,
    /// The transactions behind the image.
    pub records: u64,
    /// An unfinished write at the end, which the next start cuts off.
    pub torn: Option<TornTail>,
}

/// The place of an unfinished write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TornTail {
    /// The segment it is in.
    pub file: PathBuf,
    /// Where it starts to be incomplete.
    pub offset: u64,
}

/// Reads and checks everything in `dir`. A running store is refused.
pub(crate) fn verify(dir: &Path) -> Result<VerifyReport, Error> {
    let listing = layout::list(dir)?;
    let _lock = Lock::take(dir)?;
    // A start takes the newest image and is content; here all of them are read.
    for (_, path) in &listing.images {
        image::read(path)?;
    }
    let recovered = recover::recover(&listing, &HistoryLimits::default())?;
    Ok(VerifyReport {
        revision: recovered.head.revision,
        image: recovered.image,
        keys: recovered.head.index.map().len() as u64,
        segments: recovered.segments.len() as u64,
        frames: recovered.frames,
        records: recovered.records,
        torn: recovered.torn,
    })
}
