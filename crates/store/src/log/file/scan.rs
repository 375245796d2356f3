//! Reading a segment: frame by frame, and behind a bad one to tell a torn end from damage.

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
        frame::{self, Bad, Entry, FRAME_HEADER_BYTES, FrameHeader, Seed},
        segment::{FIRST_FRAME, SegmentHeader},
    },
};

/// A segment that is being read.
#[derive(Debug)]
pub(crate) struct Scan {
    pub(crate) path: PathBuf,
    /// Where the next frame starts, if there is one.
    pub(crate) position: u64,
    header: SegmentHeader,
    seed: Seed,
    window: Window,
}

/// What lies at a scan's position.
#[derive(Debug)]
pub(crate) enum Found {
    /// A whole frame; the scan now stands behind it.
    Frame(Frame),
    /// A frame was begun here, but not all of it is there.
    Torn(Bad),
    /// No frame was begun here.
    Nothing,
}

/// A whole frame and where it lies.
#[derive(Debug)]
pub(crate) struct Frame {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) header: FrameHeader,
    pub(crate) entries: Vec<Entry>,
}

/// A part of a file in memory.
#[derive(Debug)]
struct Window {
    file: File,
    /// The file's length; it is not written while it is read.
    size: u64,
    start: u64,
    bytes: Vec<u8>,
}

/// Larger than most frames, so that the end of a window rarely has to be moved to its start.
const WINDOW_BYTES: usize = 4 << 20;

/// Frames are handed on once they are this many bytes together.
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
            window: Window {
                file,
                size,
                start: 0,
                bytes: Vec::new(),
            },
        })
    }

    fn next(&mut self) -> Result<Found, Error> {
        let Some(header) = self.header_at(self.position)? else {
            return Ok(Found::Nothing);
        };
        let start = self.position + FRAME_HEADER_BYTES as u64;
        let length = header.length as usize;
        let bytes = self
            .window
            .at(start, length)
            .map_err(Error::io("read", &self.path))?;
        if bytes.len() < length {
            let what = "the file ends inside a frame";
            return Ok(Found::Torn(Bad {
                offset: self.position,
                what,
            }));
        }
        match frame::parse_records(&self.seed, start, &header, bytes) {
            Err(bad) => Ok(Found::Torn(bad)),
            Ok(entries) => {
                let end = (start + header.length as u64).next_multiple_of(BLOCK_BYTES as u64);
                let start = std::mem::replace(&mut self.position, end);
                Ok(Found::Frame(Frame {
                    start,
                    end,
                    header,
                    entries,
                }))
            }
        }
    }

    /// Hands on all frames up to the first place without one, in portions, and tells what lies there. Stops
    /// early if nobody takes them.
    pub(crate) fn run(&mut self, portions: &SyncSender<Vec<Frame>>) -> Result<Option<Bad>, Error> {
        let mut portion = Vec::new();
        let mut bytes = 0;
        let bad = loop {
            match self.next()? {
                Found::Frame(frame) => {
                    bytes += frame.end - frame.start;
                    portion.push(frame);
                }
                Found::Torn(bad) => break Some(bad),
                Found::Nothing => break None,
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

    /// Where behind the position, no further than the longest frame reaches, another frame was begun.
    /// Frames are written one after the other, so such a frame proves that the one here was once whole.
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

impl Window {
    /// The bytes at `offset`, fewer than `length` only where the file ends.
    fn at(&mut self, offset: u64, length: usize) -> std::io::Result<&[u8]> {
        let end = offset + length as u64;
        if offset < self.start || end > self.start + self.bytes.len() as u64 {
            self.load(offset, length.max(WINDOW_BYTES))?;
        }
        let from = (offset - self.start) as usize;
        let to = (from + length).min(self.bytes.len());
        Ok(&self.bytes[from..to])
    }

    /// Makes the window start at `offset`. What it holds already is not read again.
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
