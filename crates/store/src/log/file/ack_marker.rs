//! Acknowledgement marker: the newest revision that is known to have been acknowledged, in a small file beside the log.
//!
//! A frame that is not the last one is known to have been acknowledged, because the next one was begun. The marker
//! shows the same for the last one, so that damage to it is not taken for a write that was interrupted. It is written when the
//! sequencer has nothing else to do, through the page cache: it survives the process at once, and the machine after the
//! operating system has written it back. A marker that is too old only shows less.

use std::{fs, io, path::Path};

use crate::{
    Error, Revision,
    log::file::{
        disk::{Disk, DiskFile, Mode, write_whole},
        frame::{u32_at, u64_at},
        layout,
    },
    restrict_file,
};

const MAGIC: &[u8; 8] = b"SETACK\0\x01";
const MARKER_BYTES: usize = 36;

/// Contents of the file: everything up to `revision` was acknowledged; its last frame ends at `end` in a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct AckMarker {
    pub(crate) revision: Revision,
    pub(crate) segment: u64,
    pub(crate) end: u64,
}

/// The file, open for writing.
#[derive(Debug)]
pub(crate) struct AckFile {
    file: Box<dyn DiskFile>,
    /// The revision that the file holds.
    written: Revision,
}

// === impl AckMarker ===

impl AckMarker {
    /// Reads the marker of a directory, if it has a valid one: the marker of a crashed machine may not be.
    pub(crate) fn read(dir: &Path) -> Result<Option<AckMarker>, Error> {
        let path = layout::ack_marker(dir);
        match fs::read(&path) {
            Ok(bytes) => Ok(AckMarker::decode(&bytes)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Error::io("read", path)(error)),
        }
    }

    fn encode(&self) -> [u8; MARKER_BYTES] {
        let mut bytes = [0; MARKER_BYTES];
        bytes[..8].copy_from_slice(MAGIC);
        bytes[8..16].copy_from_slice(&self.revision.get().to_le_bytes());
        bytes[16..24].copy_from_slice(&self.segment.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.end.to_le_bytes());
        let sum = crc32fast::hash(&bytes[..32]);
        bytes[32..].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    fn decode(bytes: &[u8]) -> Option<AckMarker> {
        let whole = bytes.len() == MARKER_BYTES
            && bytes.starts_with(MAGIC)
            && u32_at(bytes, 32) == crc32fast::hash(&bytes[..32]);
        whole.then(|| AckMarker {
            revision: Revision::new(u64_at(bytes, 8)),
            segment: u64_at(bytes, 16),
            end: u64_at(bytes, 24),
        })
    }
}

// === impl AckFile ===

impl AckFile {
    /// Opens the file of a directory, or creates it.
    pub(crate) fn open(disk: &dyn Disk, dir: &Path) -> Result<AckFile, Error> {
        let path = layout::ack_marker(dir);
        let mode = match path.exists() {
            true => restrict_file(&path).map(|()| Mode::Cached)?,
            false => Mode::New,
        };
        Ok(AckFile {
            file: disk.open(&path, mode).map_err(Error::io("open", path))?,
            written: Revision::ZERO,
        })
    }

    /// Writes the marker, unless its revision is written already.
    pub(crate) fn write(&mut self, marker: &AckMarker) -> io::Result<()> {
        if marker.revision == self.written {
            return Ok(());
        }
        self.written = marker.revision;
        write_whole(&*self.file, 0, &marker.encode())
    }

    /// Returns once the marker is on the medium.
    pub(crate) fn sync(&self) -> io::Result<()> {
        self.file.sync()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_marker_reads_back_unless_a_bit_of_it_is_flipped() {
        let marker = AckMarker {
            revision: Revision::new(7),
            segment: 3,
            end: 4096,
        };
        let bytes = marker.encode();
        assert_eq!(AckMarker::decode(&bytes), Some(marker));
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes;
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(AckMarker::decode(&flipped), None);
        }
    }
}
