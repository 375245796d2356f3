//! Truncate: gives up the damaged end of a log, which opening the store never does by itself.

use std::path::Path;

use crate::{
    Error, Revision,
    log::file::{
        ack_marker::{AckFile, AckMarker},
        disk::RealDisk,
        layout,
        lock::DirLock,
        recover,
        sealed_keys::ReplayOptions,
    },
};

/// Result of truncating a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TruncateReport {
    /// The newest revision that is left.
    pub revision: Revision,
    /// The newest revision that was acknowledged, as far as is known.
    pub acknowledged: Revision,
}

/// Makes the last complete frame of the log in `dir` its end. Fails if the log is damaged before its end.
pub(crate) fn truncate(dir: &Path) -> Result<TruncateReport, Error> {
    let listing = layout::list(dir)?;
    let _lock = DirLock::take(dir)?;
    let recovered = recover::replay(&listing, &ReplayOptions::default())?;
    let revision = recovered.head.revision;
    let marker = AckMarker::read(dir)?;
    let acknowledged = marker.map_or(revision, |marker| marker.revision);
    if acknowledged > revision {
        let (at, end) = recovered.end;
        let segment = recovered.segments.get(at).map_or(0, |(number, ..)| *number);
        write(
            dir,
            &AckMarker {
                revision,
                segment,
                end,
            },
        )?;
    }
    Ok(TruncateReport {
        revision,
        acknowledged,
    })
}

fn write(dir: &Path, marker: &AckMarker) -> Result<(), Error> {
    let path = layout::ack_marker(dir);
    let mut file = AckFile::open(&RealDisk, dir)?;
    file.write(marker)
        .and_then(|()| file.sync())
        .map_err(Error::io("write", path))
}
