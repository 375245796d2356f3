//! Segment scan: reads frame by frame, and past a corrupt frame to distinguish a torn write from damage.

use std::{
    fs::File,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    sync::mpsc::SyncSender,
};

use rustix::fs::{Advice, fadvise};

use crate::{
    Error,
    log::file::{
        block::BLOCK_BYTES,
        frame::{self, Corruption, Entry, FRAME_HEADER_BYTES, FrameHeader, Seed},
        segment::{FIRST_FRAME, SegmentHeader},
    },
};

/// Reader of one segment.
#[derive(Debug)]
pub(crate) struct Scan {
    pub(crate) path: PathBuf,
    /// Where the next frame starts, if there is one.
    pub(crate) position: u64,
    header: SegmentHeader,
    seed: Seed,
    window: ReadBuffer,
}

/// Result of reading at the scan's position.
#[derive(Debug)]
pub(crate) enum ScanResult {
    /// A complete frame; the scan has advanced past it.
    Frame(Frame),
    /// A frame header, but the frame is incomplete or corrupt.
    Torn(Corruption),
    /// No valid frame header.
    End,
}

/// A complete frame and its position.
#[derive(Debug)]
pub(crate) struct Frame {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) header: FrameHeader,
    pub(crate) entries: Vec<Entry>,
}

/// Range of a file in memory.
#[derive(Debug)]
struct ReadBuffer {
    file: File,
    /// The file's length; it is not written while it is read.
    size: u64,
    start: u64,
    bytes: Vec<u8>,
}

/// Larger than most frames, so that the end of the buffer rarely has to be moved to its start.
const READ_BYTES: usize = 4 << 20;

/// Frames are sent in portions of about this size.
const PORTION_BYTES: u64 = 256 << 10;

// === impl Scan ===

impl Scan {
    pub(crate) fn open(path: &Path, number: u64) -> Result<Scan, Error> {
        let mut file = File::open(path).map_err(Error::io("open", path))?;
        let header = SegmentHeader::read(&mut file, path, number)?;
        // Only advice: a file system that does not take it reads as well, and later.
        fadvise(&file, 0, None, Advice::Sequential).ok();
        let size = file.metadata().map_err(Error::io("open", path))?.len();
        Ok(Scan {
            path: path.to_owned(),
            position: FIRST_FRAME,
            seed: header.seed(),
            header,
            window: ReadBuffer {
                file,
                size,
                start: 0,
                bytes: Vec::new(),
            },
        })
    }

    fn next(&mut self) -> Result<ScanResult, Error> {
        let Some(header) = self.header_at(self.position)? else {
            return Ok(ScanResult::End);
        };
        let start = self.position + FRAME_HEADER_BYTES as u64;
        let length = header.length as usize;
        let bytes = self
            .window
            .at(start, length)
            .map_err(Error::io("read", &self.path))?;
        if bytes.len() < length {
            let what = "the file ends inside a frame";
            return Ok(ScanResult::Torn(Corruption {
                offset: self.position,
                what,
            }));
        }
        match frame::parse_records(&self.seed, start, &header, bytes) {
            Err(bad) => Ok(ScanResult::Torn(bad)),
            Ok(entries) => {
                let end = (start + header.length as u64).next_multiple_of(BLOCK_BYTES as u64);
                let start = std::mem::replace(&mut self.position, end);
                Ok(ScanResult::Frame(Frame {
                    start,
                    end,
                    header,
                    entries,
                }))
            }
        }
    }

    /// Sends all frames up to the first position without a complete one, in portions, and returns the corruption
    /// there, if a frame was begun. Stops early if the receiver is gone.
    pub(crate) fn run(&mut self, portions: &SyncSender<Vec<Frame>>) -> Result<Option<Corruption>, Error> {
        let mut portion = Vec::new();
        let mut bytes = 0;
        let bad = loop {
            match self.next()? {
                ScanResult::Frame(frame) => {
                    bytes += frame.end - frame.start;
                    portion.push(frame);
                }
                ScanResult::Torn(bad) => break Some(bad),
                ScanResult::End => break None,
            }
            if bytes >= PORTION_BYTES {
                bytes = 0;
                if portions.send(std::mem::take(&mut portion)).is_err() {
                    return Ok(None);
                }
            }
        };
        portions.send(portion).ok();
        Ok(bad)
    }

    /// Offset of another frame header after the position, within the maximum frame length. Frames are written
    /// one after the other, so such a frame proves that the one here was once complete.
    pub(crate) fn find_later(&mut self) -> Result<Option<u64>, Error> {
        let last = self.position + self.header.frame_limit;
        for offset in (self.position..=last).step_by(BLOCK_BYTES).skip(1) {
            if self.header_at(offset)?.is_some() {
                return Ok(Some(offset));
            }
            if self.window.is_past_end(offset) {
                break;
            }
        }
        Ok(None)
    }

    fn header_at(&mut self, offset: u64) -> Result<Option<FrameHeader>, Error> {
        let read = self.window.at(offset, FRAME_HEADER_BYTES);
        let bytes = read.map_err(Error::io("read", &self.path))?;
        Ok(frame::parse_header(&self.seed, offset, bytes))
    }
}

// === impl Window ===

impl ReadBuffer {
    /// The bytes at `offset`, fewer than `length` only where the file ends.
    fn at(&mut self, offset: u64, length: usize) -> std::io::Result<&[u8]> {
        let end = offset + length as u64;
        if offset < self.start || end > self.start + self.bytes.len() as u64 {
            self.load(offset, length.max(READ_BYTES))?;
        }
        let from = (offset - self.start) as usize;
        let to = (from + length).min(self.bytes.len());
        Ok(&self.bytes[from..to])
    }

    /// Makes the buffer start at `offset`. Bytes that it already holds are not read again.
    fn load(&mut self, offset: u64, length: usize) -> std::io::Result<()> {
        let kept = offset
            .checked_sub(self.start)
            .map_or(0, |skip| self.bytes.len().saturating_sub(skip as usize));
        let skipped = self.bytes.len() - kept;
        self.bytes.copy_within(skipped.., 0);
        self.start = offset;
        let length = (length as u64).min(self.size.saturating_sub(offset)) as usize;
        self.bytes.resize(length.max(kept), 0);
        let mut filled = kept;
        while filled < self.bytes.len() {
            match self
                .file
                .read_at(&mut self.bytes[filled..], offset + filled as u64)?
            {
                0 => break,
                read => filled += read,
            }
        }
        self.bytes.truncate(filled);
        Ok(())
    }

    fn is_past_end(&self, offset: u64) -> bool {
        self.bytes.is_empty() && self.start == offset
    }
}
