//! The engine that lasts: a log of segments in one directory, and now and then an image of the whole map.
//!
//! It must never rewrite acknowledged bytes, never acknowledge bytes that are not on the medium, and never
//! guess about damage. Start reading at [`FileLog`], then `frame.rs` (what is written), `recover.rs` (how it
//! is read back) and `keeper.rs` (how the log is kept short).

pub(crate) mod block;
pub(crate) mod disk;
pub(crate) mod frame;
pub(crate) mod keeper;
pub(crate) mod layout;
pub(crate) mod lock;
pub(crate) mod prepare;
pub(crate) mod recover;
pub(crate) mod restore;
pub(crate) mod scan;
pub(crate) mod segment;
#[cfg(test)]
mod tests;
pub(crate) mod verify;

use std::{
    collections::VecDeque,
    fs,
    path::{Path, PathBuf},
    sync::{Arc, atomic::Ordering::Relaxed},
};

use crate::{
    Config, Error, Millis, Revision,
    batch::Batch,
    head::Head,
    log::{
        Log,
        file::{
            block::Block,
            disk::Disk,
            frame::FrameHeader,
            keeper::Keeper,
            lock::Lock,
            prepare::{Maker, Pace, Preparer},
            recover::Recovered,
            segment::{FIRST_FRAME, Segment},
        },
    },
    shared::Shared,
};

/// A directory that has been read and is ready to be written.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) head: Head,
    pub(crate) position: Position,
    pub(crate) keeper: Keeper,
}

/// Where the log goes on.
#[derive(Debug)]
pub(crate) struct Position {
    maker: Maker,
    current: u64,
    offset: u64,
    sequence: u64,
    replayed_bytes: u64,
    sealed: VecDeque<Sealed>,
    prepared: VecDeque<u64>,
    last: Revision,
    lock: Arc<Lock>,
}

/// A segment that is no longer written.
#[derive(Debug)]
pub(crate) struct Sealed {
    path: PathBuf,
    /// It holds nothing above this revision.
    last: Revision,
}

/// The log of one directory, open for appending.
#[derive(Debug)]
pub(crate) struct FileLog {
    shared: Arc<Shared>,
    maker: Maker,
    current: Segment,
    /// Older segments, oldest first.
    sealed: VecDeque<Sealed>,
    /// Numbers of segments that were already prepared when the store was opened.
    prepared: VecDeque<u64>,
    preparer: Preparer,
    sequence: u64,
    last: Revision,
    /// Bytes appended since the store was opened, counting what was replayed.
    total: u64,
    /// The part of `total` that an image has made superfluous.
    imaged: u64,
    /// How large `total` was when a revision was reached, about once per [`MARK_BYTES`].
    marks: VecDeque<(Revision, u64)>,
    _lock: Arc<Lock>,
}

const MARK_BYTES: u64 = 1 << 20;

/// Reads the store in `dir`, or starts one there.
pub(crate) fn open(disk: Arc<dyn Disk>, dir: &Path, config: &Config) -> Result<Opened, Error> {
    fs::create_dir_all(dir).map_err(Error::io("create", dir))?;
    let lock = Arc::new(Lock::take(dir)?);
    let listing = layout::list(dir)?;
    for path in &listing.unfinished {
        disk.remove(path).map_err(Error::io("remove", path))?;
    }
    let mut recovered = recover::recover(&listing, &config.history)?;
    recovered.tell();
    let maker = Maker::new(disk.clone(), dir, config);
    if recovered.segments.is_empty() {
        maker.make(1, 0, &Pace::at_once())?;
        recovered
            .segments
            .push((1, layout::segment(dir, 1), Revision::ZERO));
        recovered.end = (0, FIRST_FRAME);
    }
    let keeper = Keeper::new(disk, dir, config.segment_bytes, lock.clone());
    let head = std::mem::take(&mut recovered.head);
    let position = Position::new(recovered, head.revision, maker, lock);
    Ok(Opened {
        head,
        position,
        keeper,
    })
}

// === impl Position ===

impl Position {
    fn new(recovered: Recovered, last: Revision, maker: Maker, lock: Arc<Lock>) -> Position {
        let (at, offset) = recovered.end;
        let mut segments = recovered.segments.into_iter();
        let sealed = segments
            .by_ref()
            .take(at)
            .map(|(_, path, last)| Sealed { path, last });
        let sealed = sealed.collect();
        let (current, ..) = segments.next().expect("the end lies in a listed segment");
        Position {
            maker,
            current,
            offset,
            sequence: recovered.sequence,
            replayed_bytes: recovered.replayed_bytes,
            sealed,
            prepared: segments.map(|(number, ..)| number).collect(),
            last,
            lock,
        }
    }
}

// === impl FileLog ===

impl FileLog {
    /// Goes on where the last run ended, and has the next segment prepared.
    pub(crate) fn start(position: Position, shared: Arc<Shared>) -> Result<FileLog, Error> {
        let maker = position.maker;
        let durability = shared.config.durability;
        let (number, offset) = (position.current, position.offset);
        let current = Segment::open(&*maker.disk, &maker.dir, number, offset, durability)?;
        let mut log = FileLog {
            preparer: Preparer::start(maker.clone())?,
            shared,
            maker,
            current,
            sealed: position.sealed,
            prepared: position.prepared,
            sequence: position.sequence,
            last: position.last,
            total: position.replayed_bytes,
            imaged: 0,
            marks: VecDeque::new(),
            _lock: position.lock,
        };
        if log.prepared.is_empty() {
            log.preparer.request(number + 1, 0);
        }
        Ok(log)
    }

    /// Seals the frame in `block` and writes it durably.
    fn write_frame(&mut self, block: &mut Block, header: FrameHeader, last: Revision) -> Result<(), Error> {
        let length = block.as_slice().len().next_multiple_of(block::BLOCK_BYTES) as u64;
        while !self.current.has_room(length) {
            self.roll(length)?;
        }
        frame::seal(block, &self.current.seed, self.current.position, header);
        self.write(block.as_slice())?;
        self.preparer.keep_pace(self.current.position, self.current.size);
        self.sequence += 1;
        self.last = last;
        self.total += length;
        if self
            .marks
            .back()
            .is_none_or(|(_, total)| self.total - total >= MARK_BYTES)
        {
            self.marks.push_back((last, self.total));
        }
        Ok(())
    }

    fn write(&mut self, frame: &[u8]) -> Result<(), Error> {
        let ticks = &self.shared.config.ticks;
        let started = ticks();
        self.current.append(frame)?;
        let counters = &self.shared.counters;
        counters
            .sync_micros
            .record(ticks().saturating_sub(started) / 1000);
        counters.syncs.fetch_add(1, Relaxed);
        counters.bytes_appended.fetch_add(frame.len() as u64, Relaxed);
        Ok(())
    }

    /// Of the next frame; its length is known when it is sealed.
    fn header(&self, time: Millis, count: u32) -> FrameHeader {
        FrameHeader {
            length: 0,
            sequence: self.sequence,
            time,
            count,
        }
    }

    /// Goes on in the next segment, which may still be too small for the frame at hand; the one after it is
    /// then made large enough.
    fn roll(&mut self, length: u64) -> Result<(), Error> {
        let number = match self.prepared.pop_front() {
            Some(number) => number,
            None => self.preparer.take()?,
        };
        let durability = self.shared.config.durability;
        let (disk, dir) = (&*self.maker.disk, &self.maker.dir);
        let next = Segment::open(disk, dir, number, FIRST_FRAME, durability)?;
        if self.prepared.is_empty() {
            let room = if next.has_room(length) { 0 } else { length };
            self.preparer.request(number + 1, room);
        }
        let full = std::mem::replace(&mut self.current, next);
        self.sealed.push_back(Sealed {
            path: full.path,
            last: self.last,
        });
        Ok(())
    }
}

impl Log for FileLog {
    fn append(&mut self, batch: &mut Batch, last: Revision) -> Result<(), Error> {
        let header = self.header(batch.time, batch.accepted);
        let frame = batch.frame.as_mut();
        let block = frame.expect("batches for a log that keeps frames come with one");
        self.write_frame(block, header, last)
    }

    fn keeps_frames(&self) -> bool {
        true
    }

    fn compact(&mut self, revision: Revision, current: Revision, time: Millis) -> Result<(), Error> {
        let mut block = Block::default();
        frame::begin(&mut block);
        frame::put_compact(&mut block, current, revision);
        self.write_frame(&mut block, self.header(time, 1), current)
    }

    fn release(&mut self, revision: Revision) -> Vec<PathBuf> {
        while let Some((_, total)) = self.marks.pop_front_if(|(at, _)| *at <= revision) {
            self.imaged = total;
        }
        let covered = self
            .sealed
            .iter()
            .take_while(|sealed| sealed.last <= revision)
            .count();
        self.sealed.drain(..covered).map(|sealed| sealed.path).collect()
    }

    fn bytes(&self) -> u64 {
        self.total - self.imaged
    }
}
