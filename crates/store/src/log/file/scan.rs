//! Reading a segment: frame by frame, and behind a bad one to tell a torn end from damage.

use std::{
    fs::File,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
};

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
    Frame {
        header: FrameHeader,
        entries: Vec<Entry>,
    },
    /// A frame was begun here, but not all of it is there.
    Torn(Bad),
    /// No frame was begun here.
    Nothing,
}

/// A part of a file in memory.
#[derive(Debug)]
struct Window {
    file: File,
    start: u64,
    bytes: Vec<u8>,
}

const WINDOW_BYTES: usize = 1 << 20;

// === impl Scan ===

impl Scan {
    pub(crate) fn open(path: &Path, number: u64) -> Result<Scan, Error> {
        let mut file = File::open(path).map_err(Error::io("open", path))?;
        let header = SegmentHeader::read(&mut file, path, number)?;
        Ok(Scan {
            path: path.to_owned(),
            position: FIRST_FRAME,
            seed: header.seed(),
            header,
            window: Window {
                file,
                start: 0,
                bytes: Vec::new(),
            },
        })
    }

    pub(crate) fn next(&mut self) -> Result<Found, Error> {
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
                let end = start + header.length as u64;
                self.position = end.next_multiple_of(BLOCK_BYTES as u64);
                Ok(Found::Frame { header, entries })
            }
        }
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

    fn load(&mut self, offset: u64, length: usize) -> std::io::Result<()> {
        self.start = offset;
        self.bytes = vec![0; length];
        let mut filled = 0;
        while filled < length {
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
