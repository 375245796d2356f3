//! Segments: the files of the log. One is written at a time; a full one is never changed until it is recycled
//! under a new number and a new salt.

use std::{
    collections::hash_map::RandomState,
    fs::File,
    hash::{BuildHasher, Hasher},
    io::Read,
    path::{Path, PathBuf},
};

use crate::{
    Durability, Error,
    log::file::{
        block::{BLOCK_BYTES, Block},
        disk::{Disk, DiskFile, Mode, write_whole},
        frame::{Seed, u32_at, u64_at},
        layout,
    },
};

/// Frames start after the block that holds the header.
pub(crate) const FIRST_FRAME: u64 = BLOCK_BYTES as u64;

const MAGIC: &[u8; 8] = b"SETLOG\0\x01";
const HEADER_BYTES: usize = 36;

/// Header of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SegmentHeader {
    pub(crate) number: u64,
    /// Random; drawn again each time a file becomes a segment.
    pub(crate) salt: u64,
    /// Maximum length of a frame in this segment; it bounds the search after a corrupt one.
    pub(crate) frame_limit: u64,
}

/// A segment open for appending.
#[derive(Debug)]
pub(crate) struct Segment {
    pub(crate) header: SegmentHeader,
    pub(crate) path: PathBuf,
    pub(crate) seed: Seed,
    /// Offset of the next frame; always a multiple of the block size.
    pub(crate) position: u64,
    pub(crate) size: u64,
    /// A write at `position` failed, and some of it may be there.
    failed: bool,
    file: Box<dyn DiskFile>,
}

// === impl SegmentHeader ===

impl SegmentHeader {
    pub(crate) fn new(number: u64, frame_limit: u64) -> SegmentHeader {
        SegmentHeader {
            number,
            // The standard library's hash keys are random, which suffices for a salt.
            salt: RandomState::new().build_hasher().finish(),
            frame_limit,
        }
    }

    pub(crate) fn encode(&self) -> Block {
        let mut block = Block::default();
        block.start_with(HEADER_BYTES);
        block.put(MAGIC);
        block.put(&self.number.to_le_bytes());
        block.put(&self.salt.to_le_bytes());
        block.put(&self.frame_limit.to_le_bytes());
        let sum = crc32fast::hash(block.as_slice());
        block.put(&sum.to_le_bytes());
        block.pad();
        block
    }

    fn decode(bytes: &[u8; HEADER_BYTES]) -> Option<SegmentHeader> {
        let whole = bytes.starts_with(MAGIC) && u32_at(bytes, 32) == crc32fast::hash(&bytes[..32]);
        whole.then(|| SegmentHeader {
            number: u64_at(bytes, 8),
            salt: u64_at(bytes, 16),
            frame_limit: u64_at(bytes, 24),
        })
    }

    /// Reads the header of the file of segment `number`.
    pub(crate) fn read(file: &mut File, path: &Path, number: u64) -> Result<Self, Error> {
        let mut bytes = [0; HEADER_BYTES];
        let read = file.read_exact(&mut bytes);
        let header = read.ok().and_then(|()| SegmentHeader::decode(&bytes));
        header
            .filter(|header| header.number == number)
            .ok_or_else(|| Error::Corrupt {
                file: path.to_owned(),
                offset: 0,
                what: "the segment's header is not valid".into(),
                advice: "restore the directory from a backup",
            })
    }

    pub(crate) fn seed(&self) -> Seed {
        Seed::new(self.number, self.salt)
    }
}

// === impl Segment ===

impl Segment {
    /// Opens an empty or partly written segment to continue at `position`.
    pub(crate) fn open(
        disk: &dyn Disk,
        dir: &Path,
        number: u64,
        position: u64,
        durability: Durability,
    ) -> Result<Segment, Error> {
        let path = layout::segment(dir, number);
        let mut reader = File::open(&path).map_err(Error::io("open", &path))?;
        let header = SegmentHeader::read(&mut reader, &path, number)?;
        let size = reader.metadata().map_err(Error::io("open", &path))?.len();
        let mode = match durability {
            Durability::Sync => Mode::Durable,
            Durability::None => Mode::Cached,
        };
        let file = disk.open(&path, mode).map_err(Error::io("open", &path))?;
        Ok(Segment {
            seed: header.seed(),
            header,
            position,
            size,
            failed: false,
            file,
            path,
        })
    }

    /// Whether a frame of this padded length fits into this segment.
    pub(crate) fn fits(&self, length: u64) -> bool {
        self.position + length <= self.size && length <= self.header.frame_limit
    }

    /// The bytes after the last frame.
    pub(crate) fn remaining(&self) -> u64 {
        self.size.saturating_sub(self.position)
    }

    /// Writes a sealed frame at `position` and advances. After an error it stays, so that the next frame overwrites
    /// what was written of this one.
    pub(crate) fn append(&mut self, frame: &[u8]) -> Result<(), Error> {
        self.write(frame)?;
        self.position += frame.len() as u64;
        Ok(())
    }

    /// Ends the segment. The header of a frame that could not be written is overwritten with zeros: the next segment
    /// will hold another frame of its number.
    pub(crate) fn finish(&mut self) -> Result<(), Error> {
        if !self.failed {
            return Ok(());
        }
        let mut zeros = Block::default();
        zeros.start_with(BLOCK_BYTES);
        zeros.put(&[0; BLOCK_BYTES]);
        self.write(zeros.as_slice())
    }

    fn write(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let written = write_whole(&*self.file, self.position, bytes);
        self.failed = written.is_err();
        written.map_err(Error::io("write", &self.path))
    }
}
