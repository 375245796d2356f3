//! The durable engine: a write-ahead log of segments in one directory, and snapshot files of the whole map.
//!
//! It never rewrites acknowledged bytes, never acknowledges bytes that are not on the medium, and never guesses
//! about damage. Start reading at [`FileLog`], then `frame.rs` (the format), `recover.rs` (how it is read back)
//! and `compactor.rs` (how the log is kept short).

pub(crate) mod ack_marker;
pub(crate) mod block;
pub(crate) mod compactor;
pub(crate) mod disk;
pub(crate) mod frame;
pub(crate) mod layout;
pub(crate) mod lock;
pub(crate) mod recover;
pub(crate) mod restore;
pub(crate) mod scan;
pub(crate) mod sealed_keys;
pub(crate) mod segment;
pub(crate) mod segment_allocator;
pub(crate) mod snapshot_file;
#[cfg(test)]
mod tests;
pub(crate) mod truncate;
pub(crate) mod verify;

use std::{
    collections::VecDeque,
    path::{Path, PathBuf},
    sync::{Arc, atomic::Ordering::Relaxed},
};

use crate::{
    Config, Durability, Error, Millis, Revision,
    log::{
        Log, SpaceReport, WriteBatch,
        file::{
            ack_marker::{AckFile, AckMarker},
            block::Block,
            compactor::Compactor,
            disk::Disk,
            frame::FrameHeader,
            lock::DirLock,
            recover::Recovery,
            sealed_keys::ReplayOptions,
            segment::{FIRST_FRAME, Segment},
            segment_allocator::{AllocatorThread, FillLimiter, Request, SegmentAllocator},
        },
    },
    private_dir::{open_private_dir, restrict_dir},
    shared::Shared,
};

/// A recovered directory, open for writing. The head that `shared` publishes is the one that `log` continues from.
#[derive(Debug)]
pub(crate) struct OpenedDir {
    pub(crate) shared: Arc<Shared>,
    pub(crate) log: FileLog,
    pub(crate) compactor: Compactor,
}

/// A full segment.
#[derive(Debug)]
pub(crate) struct SealedSegment {
    path: PathBuf,
    /// The highest revision in it.
    last: Revision,
}

/// The log of one directory, open for appending.
#[derive(Debug)]
pub(crate) struct FileLog {
    shared: Arc<Shared>,
    allocator: SegmentAllocator,
    current: Segment,
    /// Older segments, oldest first.
    sealed: VecDeque<SealedSegment>,
    /// Numbers of the empty segments that already existed when the store was opened.
    prepared: VecDeque<u64>,
    allocator_thread: AllocatorThread,
    sequence: u64,
    last: Revision,
    /// Bytes appended since the store was opened, plus the replayed ones.
    total: u64,
    /// The share of `total` that a snapshot file covers.
    covered: u64,
    /// The value of `total` at some revisions, about one per [`MARK_BYTES`].
    marks: VecDeque<(Revision, u64)>,
    /// `None` where a commit does not survive the machine: there a lost one is no damage.
    ack_file: Option<AckFile>,
    _lock: Arc<DirLock>,
}

const MARK_BYTES: u64 = 1 << 20;

/// The share of a segment that is left to deletes until the next segment is there, and its limit.
const RESERVE_SHARE: u64 = 8;
const MAX_RESERVE_BYTES: u64 = 4 << 20;

/// Space for fewer segments than this, besides a snapshot file, is worth a warning.
const LOW_SEGMENTS: u64 = 2;

/// Locks `dir`, recovers the store in it, or creates one there, and opens its log for writing.
pub(crate) fn open(disk: Arc<dyn Disk>, dir: &Path, config: Config) -> Result<OpenedDir, Error> {
    open_private_dir(dir)?;
    restrict_dir(dir)?;
    let lock = Arc::new(DirLock::take(dir)?);
    let listing = layout::list(dir)?;
    listing.restrict_files()?;
    for path in &listing.unfinished {
        disk.remove(path).map_err(Error::io("remove", path))?;
    }
    let mut recovery = recover::recover(dir, &listing, &ReplayOptions::of(&config))?;
    recovery.sealed.check()?;
    recovery.log_outcome();
    let allocator = SegmentAllocator::new(disk.clone(), dir, &config);
    if recovery.segments.is_empty() {
        let first = Request {
            number: 1,
            ..Request::default()
        };
        allocator.allocate(&first, &FillLimiter::unlimited())?;
        recovery
            .segments
            .push((1, layout::segment(dir, 1), Revision::ZERO));
        recovery.end = (0, FIRST_FRAME);
    }
    let compactor = Compactor::new(disk, dir, config.segment_bytes, lock.clone());
    let head = std::mem::take(&mut recovery.head);
    let shared = Shared::new(config, Arc::new(head));
    let log = FileLog::start(recovery, allocator, lock, shared.clone())?;
    Ok(OpenedDir {
        shared,
        log,
        compactor,
    })
}

// === impl FileLog ===

impl FileLog {
    /// Opens the current segment at the end of the recovered log and requests the next segment.
    fn start(
        recovery: Recovery,
        allocator: SegmentAllocator,
        lock: Arc<DirLock>,
        shared: Arc<Shared>,
    ) -> Result<FileLog, Error> {
        let (at, offset) = recovery.end;
        let mut segments = recovery.segments.into_iter();
        let sealed = segments
            .by_ref()
            .take(at)
            .map(|(_, path, last)| SealedSegment { path, last })
            .collect();
        let (number, ..) = segments.next().expect("the end lies in a listed segment");
        let durability = shared.config.durability;
        let ack_file = match durability {
            Durability::Sync => Some(AckFile::open(&*allocator.disk, &allocator.dir)?),
            Durability::None => None,
        };
        let mut log = FileLog {
            ack_file,
            current: Segment::open(&*allocator.disk, &allocator.dir, number, offset, durability)?,
            sealed,
            prepared: segments.map(|(number, ..)| number).collect(),
            allocator_thread: AllocatorThread::start(allocator.clone())?,
            allocator,
            sequence: recovery.sequence,
            last: shared.head().revision,
            total: recovery.replayed_bytes,
            covered: 0,
            marks: VecDeque::new(),
            shared,
            _lock: lock,
        };
        log.request_next(0);
        Ok(log)
    }

    /// Seals the frame in `block` and writes it durably.
    fn write_frame(&mut self, block: &mut Block, header: FrameHeader, last: Revision) -> Result<(), Error> {
        let length = padded_length(block);
        while !self.current.fits(length) {
            self.roll(length)?;
        }
        frame::seal(block, &self.current.seed, self.current.position, header);
        self.write(block.as_slice())?;
        self.allocator_thread
            .report_usage(self.current.position, self.current.size);
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
        let appended = self.current.append(frame);
        appended.inspect_err(|error| self.note_no_space(error))?;
        let counters = &self.shared.counters;
        counters
            .sync_micros
            .record(ticks().saturating_sub(started) / 1000);
        counters.syncs.fetch_add(1, Relaxed);
        counters.bytes_appended.fetch_add(frame.len() as u64, Relaxed);
        Ok(())
    }

    /// Header of the next frame; `seal` sets the length.
    fn header(&self, time: Millis, count: u32) -> FrameHeader {
        FrameHeader {
            length: 0,
            sequence: self.sequence,
            time,
            count,
        }
    }

    /// Continues in the next segment. That one may still be too small for a frame of `length`; the one after it is
    /// then requested large enough.
    fn roll(&mut self, length: u64) -> Result<(), Error> {
        self.wait_for_next()?;
        let durability = self.shared.config.durability;
        let (disk, dir) = (&*self.allocator.disk, &self.allocator.dir);
        let number = self.prepared[0];
        let next = Segment::open(disk, dir, number, FIRST_FRAME, durability)?;
        let min_bytes = if next.fits(length) { 0 } else { length };
        if min_bytes > 0 && self.prepared.len() == 1 {
            // Without space for the frame, the rest of this segment is not given up for it.
            self.allocator.check(&self.request(number + 1, min_bytes))?;
        }
        self.current.finish()?;
        self.prepared.pop_front();
        let full = std::mem::replace(&mut self.current, next);
        self.sealed.push_back(SealedSegment {
            path: full.path,
            last: self.last,
        });
        self.request_next(min_bytes);
        Ok(())
    }

    /// Leaves the end of the segment to deletes until there is a next one: those have to work on a full disk.
    fn keep_reserve(&mut self, length: u64) -> Result<(), Error> {
        let reserve = (self.current.size / RESERVE_SHARE).min(MAX_RESERVE_BYTES);
        match self.current.fits(length) && self.current.remaining() < length + reserve {
            true => self.wait_for_next(),
            false => Ok(()),
        }
    }

    /// Returns once the next segment is prepared.
    fn wait_for_next(&mut self) -> Result<(), Error> {
        if !self.prepared.is_empty() {
            return Ok(());
        }
        let was_requested = self.allocator_thread.is_requested;
        let mut taken = self.take_next();
        if was_requested && taken.as_ref().is_err_and(Error::is_no_space) {
            // That may have been long ago.
            taken = self.take_next();
        }
        taken.inspect_err(|error| self.note_no_space(error))
    }

    fn take_next(&mut self) -> Result<(), Error> {
        if !self.allocator_thread.is_requested {
            self.request_next(0);
        }
        let number = self.allocator_thread.take()?;
        self.prepared.push_back(number);
        Ok(())
    }

    /// Requests the next segment, unless it is prepared.
    fn request_next(&mut self, min_bytes: u64) {
        if self.prepared.is_empty() {
            let request = self.request(self.current.header.number + 1, min_bytes);
            self.allocator_thread.request(request);
        }
    }

    fn request(&self, number: u64, min_bytes: u64) -> Request {
        Request {
            number,
            min_bytes,
            spare_bytes: self.snapshot_file_bytes() + self.current.remaining(),
        }
    }

    /// The space that a snapshot file would need now.
    fn snapshot_file_bytes(&self) -> u64 {
        let head = self.shared.head();
        snapshot_file::size_bound(head.index.map().len() as u64, head.index.bytes())
    }

    fn note_no_space(&self, error: &Error) {
        if error.is_no_space() {
            self.shared.space.set_full(error);
        }
    }
}

fn padded_length(block: &Block) -> u64 {
    block.as_slice().len().next_multiple_of(block::BLOCK_BYTES) as u64
}

impl Log for FileLog {
    fn new_batch(&self) -> WriteBatch {
        WriteBatch {
            frame: Some(Block::default()),
            ..WriteBatch::default()
        }
    }

    fn append(&mut self, batch: &mut WriteBatch) -> Result<(), Error> {
        let header = self.header(batch.time, batch.count);
        let frame = batch.frame.as_mut();
        let block = frame.expect("a batch for the file log has a frame");
        if batch.has_puts {
            self.keep_reserve(padded_length(block))?;
        }
        self.write_frame(block, header, batch.last)
    }

    fn compact(&mut self, revision: Revision, current: Revision, time: Millis) -> Result<(), Error> {
        let mut block = Block::default();
        frame::begin(&mut block);
        frame::put_compact(&mut block, current, revision);
        self.write_frame(&mut block, self.header(time, 1), current)
    }

    fn release(&mut self, revision: Revision) -> Vec<PathBuf> {
        while let Some((_, total)) = self.marks.pop_front_if(|(at, _)| *at <= revision) {
            self.covered = total;
        }
        let covered = self
            .sealed
            .iter()
            .take_while(|sealed| sealed.last <= revision)
            .count();
        self.sealed.drain(..covered).map(|sealed| sealed.path).collect()
    }

    fn bytes(&self) -> u64 {
        self.total - self.covered
    }

    fn check_space(&mut self) -> Result<SpaceReport, Error> {
        let free = self.allocator.free_bytes();
        let snapshot_file = self.snapshot_file_bytes();
        let segments = LOW_SEGMENTS * self.shared.config.segment_bytes;
        self.shared.space.set_free_bytes(free, snapshot_file + segments);
        if !self.shared.space.is_full() {
            return Ok(SpaceReport::default());
        }
        match self.wait_for_next() {
            Ok(()) => {
                self.shared.space.clear_full();
                Ok(SpaceReport::default())
            }
            Err(error) if error.is_no_space() => Ok(SpaceReport {
                snapshot_file_helps: !self.sealed.is_empty() && snapshot_file <= free,
            }),
            Err(error) => Err(error),
        }
    }

    fn mark_acknowledged(&mut self) {
        let marker = AckMarker {
            revision: self.last,
            segment: self.current.header.number,
            end: self.current.position,
        };
        let written = self.ack_file.as_mut().map(|file| file.write(&marker));
        if let Some(Err(error)) = written {
            // An old marker is true, too; it only shows less.
            tracing::warn!(%error, "cannot write the acknowledgement marker of the store");
        }
    }
}
