//! Segment preallocation: the next segment is created on its own thread, so that the sequencer does not wait for it.
//!
//! A new segment is filled with zeros, because overwriting allocated blocks changes no file system metadata, which
//! makes each later durable write several times faster. A recycled file only gets a new header.
//!
//! Filling uses the same disk as the commits, so it proceeds in small portions at their pace: the next segment is
//! ready when the current one is half full, and an idle store fills nothing. Its space is reserved at once, where the
//! file system can, so that a full disk is noticed a segment ahead.

use std::{
    io,
    path::{Path, PathBuf},
    sync::{
        Arc,
        mpsc::{Receiver, SyncSender, sync_channel},
    },
    thread::JoinHandle,
};

use parking_lot::{Condvar, Mutex};

use crate::{
    Config, Error,
    log::{
        BATCH_BYTES,
        file::{
            block::{BLOCK_BYTES, Block},
            disk::{Disk, Mode, write_whole},
            layout,
            segment::{FIRST_FRAME, SegmentHeader},
        },
    },
};

/// Creates segments in one directory.
#[derive(Clone, Debug)]
pub(crate) struct SegmentAllocator {
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) dir: PathBuf,
    segment_bytes: u64,
    frame_limit: u64,
}

/// The thread that allocates the next segment while the current one is written. At most one request is pending.
#[derive(Debug)]
pub(crate) struct AllocatorThread {
    requests: Option<SyncSender<Request>>,
    results: Receiver<Result<u64, Error>>,
    thread: Option<JoinHandle<()>>,
    limiter: Arc<FillLimiter>,
    /// The number of parts last set in `limiter`.
    allowed: u64,
    /// Whether a result was requested and not taken yet.
    pub(crate) is_requested: bool,
}

/// Limits how far the next segment is filled, in parts of [`PARTS`], and stops the filling.
#[derive(Debug)]
pub(crate) struct FillLimiter {
    state: Mutex<FillLimit>,
    changed: Condvar,
}

#[derive(Debug)]
struct FillLimit {
    parts: u64,
    stopped: bool,
}

/// Request for a segment.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Request {
    pub(crate) number: u64,
    /// Space for at least this many bytes of frames.
    pub(crate) min_bytes: u64,
    /// Bytes that stay free on the disk: the log must not take the space of the next snapshot file, which makes it
    /// short again.
    pub(crate) spare_bytes: u64,
}

/// Size of the first segment of a store; each next one is four times larger until the configured size is reached.
/// So creating a store writes little.
const FIRST_SEGMENT_BYTES: u64 = 1 << 20;

/// A segment is made smaller than it should be rather than not at all, but not smaller than this.
const MIN_SEGMENT_BYTES: u64 = 256 << 10;

/// Zeros are written in portions of this size, so that a commit never waits long behind one.
const FILL_BYTES: usize = 256 << 10;

/// The number of parts that a segment's fill progress is measured in.
const PARTS: u64 = 64;

/// The next segment is filled this many times as fast as the current one is written.
const LEAD: u64 = 2;

// === impl SegmentAllocator ===

impl SegmentAllocator {
    pub(crate) fn new(disk: Arc<dyn Disk>, dir: &Path, config: &Config) -> SegmentAllocator {
        let frame = config.max_txn_bytes.max(BATCH_BYTES) + BLOCK_BYTES as u64;
        SegmentAllocator {
            disk,
            dir: dir.to_owned(),
            segment_bytes: config.segment_bytes,
            frame_limit: frame.next_multiple_of(BLOCK_BYTES as u64),
        }
    }

    /// Creates the requested segment, from a spare file or a new one. It gets its name only when it is complete and
    /// durable.
    pub(crate) fn allocate(&self, request: &Request, limiter: &FillLimiter) -> Result<(), Error> {
        let path = match self.find_spare(request.min_bytes)? {
            Some(spare) => spare,
            None => self.create(request, limiter)?,
        };
        self.write_header(&path, request.number)?;
        let name = layout::segment(&self.dir, request.number);
        self.disk
            .rename(&path, &name)
            .map_err(Error::io("rename", &path))?;
        self.disk
            .sync_dir(&self.dir)
            .map_err(Error::io("sync", &self.dir))
    }

    /// Fails if the requested segment could not be created now.
    pub(crate) fn check(&self, request: &Request) -> Result<(), Error> {
        match self.find_spare(request.min_bytes)? {
            Some(_) => Ok(()),
            None => self.new_size(request).map(drop),
        }
    }

    /// The free bytes of the disk. Where they are unknown, writing finds out.
    pub(crate) fn free_bytes(&self) -> u64 {
        self.disk.free_bytes(&self.dir).unwrap_or(u64::MAX)
    }

    /// Creates a file of zeros. One that cannot be completed is removed, because the disk may be full.
    fn create(&self, request: &Request, limiter: &FillLimiter) -> Result<PathBuf, Error> {
        let size = self.new_size(request)?;
        let path = layout::unfinished(&layout::segment(&self.dir, request.number));
        let filled = self.fill(&path, size, limiter);
        if filled.is_err() {
            self.disk.remove(&path).ok();
        }
        filled.map(|()| path)
    }

    /// The size of a new file: the full size if there is space for it, else what there is.
    fn new_size(&self, request: &Request) -> Result<u64, Error> {
        let needed = FIRST_FRAME + request.min_bytes.next_multiple_of(BLOCK_BYTES as u64);
        let wanted = self.size(request.number).max(needed);
        let least = wanted.min(needed.max(MIN_SEGMENT_BYTES));
        let free = self.free_bytes();
        // What is written to the segment may be part of the next snapshot file, too.
        let available = free.saturating_sub(request.spare_bytes) / 2;
        if available >= least {
            return Ok(wanted.min(available / BLOCK_BYTES as u64 * BLOCK_BYTES as u64));
        }
        let needed = 2 * least + request.spare_bytes;
        let message = format!("{free} bytes are free and {needed} are needed");
        let full = io::Error::new(io::ErrorKind::StorageFull, message);
        Err(Error::io("create a log segment in", &self.dir)(full))
    }

    fn find_spare(&self, min_bytes: u64) -> Result<Option<PathBuf>, Error> {
        let spares = layout::list(&self.dir)?.spares;
        let fits = |path: &PathBuf| {
            path.metadata()
                .is_ok_and(|metadata| metadata.len() >= FIRST_FRAME + min_bytes)
        };
        Ok(spares.into_iter().find(fits))
    }

    fn fill(&self, path: &Path, size: u64, limiter: &FillLimiter) -> Result<(), Error> {
        let failed = || Error::io("fill", path);
        let file = self.disk.open(path, Mode::Fill).map_err(failed())?;
        file.allocate(size).map_err(failed())?;
        let mut block = Block::default();
        block.start_with(FILL_BYTES.min(size as usize));
        block.put(&vec![0; FILL_BYTES.min(size as usize)]);
        let zeros = block.as_slice();
        for offset in (0..size).step_by(zeros.len()) {
            limiter.wait_for(offset * PARTS / size)?;
            let length = zeros.len().min((size - offset) as usize);
            write_whole(&*file, offset, &zeros[..length]).map_err(failed())?;
        }
        file.sync().map_err(failed())
    }

    fn write_header(&self, path: &Path, number: u64) -> Result<(), Error> {
        let header = SegmentHeader::new(number, self.frame_limit).encode();
        let file = self
            .disk
            .open(path, Mode::Cached)
            .map_err(Error::io("open", path))?;
        write_whole(&*file, 0, header.as_slice()).map_err(Error::io("write", path))?;
        file.sync().map_err(Error::io("sync", path))
    }

    fn size(&self, number: u64) -> u64 {
        let steps = number.saturating_sub(1).min(16) as u32 * 2;
        let size = self.segment_bytes.min(FIRST_SEGMENT_BYTES << steps);
        size.max(2 * FIRST_FRAME).next_multiple_of(BLOCK_BYTES as u64)
    }
}

// === impl AllocatorThread ===

impl AllocatorThread {
    pub(crate) fn start(allocator: SegmentAllocator) -> Result<AllocatorThread, Error> {
        let (requests, queue) = sync_channel::<Request>(1);
        let (sender, results) = sync_channel(1);
        let limiter = Arc::new(FillLimiter::new(0));
        let fill_limiter = limiter.clone();
        let work = move || {
            for request in queue {
                let result = allocator.allocate(&request, &fill_limiter);
                if sender.send(result.map(|()| request.number)).is_err() {
                    break;
                }
            }
        };
        let thread = std::thread::Builder::new()
            .name("store-segments".into())
            .spawn(work)
            .map_err(Error::io("start", "store-segments"))?;
        Ok(AllocatorThread {
            requests: Some(requests),
            results,
            thread: Some(thread),
            limiter,
            allowed: 0,
            is_requested: false,
        })
    }

    /// Requests a segment. The caller has already taken the previous one.
    pub(crate) fn request(&mut self, request: Request) {
        self.allow(0);
        self.is_requested = true;
        if let Some(requests) = &self.requests {
            // The thread ends only after this sender is dropped, and the slot is free by then.
            requests.send(request).ok();
        }
    }

    /// Reports how much of the current segment is used, so that the next one is filled in step.
    pub(crate) fn report_usage(&mut self, used: u64, size: u64) {
        let parts = used.saturating_mul(PARTS * LEAD) / size.max(1);
        if parts > self.allowed {
            self.allow(parts);
        }
    }

    /// Waits for the requested segment and returns its number. After an error it has to be requested again.
    pub(crate) fn take(&mut self) -> Result<u64, Error> {
        self.allow(PARTS);
        self.is_requested = false;
        self.results.recv().map_err(|_| Error::Closed)?
    }

    fn allow(&mut self, parts: u64) {
        self.allowed = parts;
        self.limiter.state.lock().parts = parts;
        self.limiter.changed.notify_one();
    }
}

// === impl FillLimiter ===

impl FillLimiter {
    /// Allows the first `parts`.
    fn new(parts: u64) -> FillLimiter {
        let stopped = false;
        FillLimiter {
            state: Mutex::new(FillLimit { parts, stopped }),
            changed: Condvar::new(),
        }
    }

    /// Never waits.
    pub(crate) fn unlimited() -> FillLimiter {
        FillLimiter::new(PARTS)
    }

    fn stop(&self) {
        self.state.lock().stopped = true;
        self.changed.notify_one();
    }

    /// Waits until the part may be filled.
    fn wait_for(&self, part: u64) -> Result<(), Error> {
        let mut state = self.state.lock();
        while !state.stopped && part >= state.parts {
            self.changed.wait(&mut state);
        }
        match state.stopped {
            true => Err(Error::Closed),
            false => Ok(()),
        }
    }
}

impl Drop for AllocatorThread {
    fn drop(&mut self) {
        self.limiter.stop();
        drop(self.requests.take());
        if let Some(Err(_)) = self.thread.take().map(JoinHandle::join) {
            tracing::error!("the store's segment allocator thread panicked");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        conformance::ManualClock,
        log::file::disk::{DiskFile, RealDisk},
    };

    #[track_caller]
    fn check_allowed(used: u64, parts: u64) {
        let dir = tempfile::tempdir().unwrap();
        let allocator =
            SegmentAllocator::new(Arc::new(RealDisk), dir.path(), &ManualClock::default().config());
        let mut thread = AllocatorThread::start(allocator).unwrap();
        thread.report_usage(used, 1000);
        thread.report_usage(0, 1000);
        assert_eq!(thread.limiter.state.lock().parts, parts);
    }

    #[test]
    fn a_segment_is_filled_in_step_with_the_one_before() {
        check_allowed(0, 0);
        check_allowed(250, PARTS / 2);
        check_allowed(500, PARTS);
    }

    #[test]
    fn filling_waits_for_what_is_not_allowed_until_it_is_stopped() {
        let limiter = FillLimiter::new(2);
        assert!(limiter.wait_for(0).is_ok() && limiter.wait_for(1).is_ok());
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| limiter.wait_for(2));
            limiter.stop();
            assert!(matches!(waiting.join().unwrap(), Err(Error::Closed)));
        });
    }

    /// A disk with this many free bytes; nothing is written to it.
    #[derive(Debug)]
    struct SmallDisk(u64);

    impl Disk for SmallDisk {
        fn open(&self, _: &Path, _: Mode) -> io::Result<Box<dyn DiskFile>> {
            Err(io::ErrorKind::Unsupported.into())
        }

        fn rename(&self, _: &Path, _: &Path) -> io::Result<()> {
            Ok(())
        }

        fn remove(&self, _: &Path) -> io::Result<()> {
            Ok(())
        }

        fn free_bytes(&self, _: &Path) -> io::Result<u64> {
            Ok(self.0)
        }

        fn sync_dir(&self, _: &Path) -> io::Result<()> {
            Ok(())
        }
    }

    /// The size of the tenth segment, for a frame of 1 MiB, while 1 MiB has to stay free.
    #[track_caller]
    fn check_size(free: u64, size: Option<u64>) {
        let config = ManualClock::default().config();
        let allocator = SegmentAllocator::new(Arc::new(SmallDisk(free)), Path::new("x"), &config);
        let request = Request {
            number: 10,
            min_bytes: MIB,
            spare_bytes: MIB,
        };
        let made = allocator.new_size(&request);
        assert!(
            size.is_some() || made.as_ref().is_err_and(Error::is_no_space),
            "{made:?}"
        );
        assert_eq!(made.ok(), size);
    }

    const MIB: u64 = 1 << 20;

    #[test]
    fn a_segment_takes_the_space_there_is_and_never_that_of_a_snapshot_file() {
        check_size(1 << 40, Some(64 * MIB));
        check_size(129 * MIB, Some(64 * MIB));
        check_size(19 * MIB, Some(9 * MIB));
        check_size(3 * MIB + 2 * FIRST_FRAME, Some(MIB + FIRST_FRAME));
        check_size(3 * MIB, None);
        check_size(0, None);
    }

    #[test]
    fn a_segment_that_is_waited_for_is_filled_at_once() {
        let dir = tempfile::tempdir().unwrap();
        let allocator =
            SegmentAllocator::new(Arc::new(RealDisk), dir.path(), &ManualClock::default().config());
        let mut thread = AllocatorThread::start(allocator).unwrap();
        thread.request(Request {
            number: 2,
            ..Request::default()
        });
        assert_eq!(thread.take().unwrap(), 2);
        let length = layout::segment(dir.path(), 2).metadata().unwrap().len();
        assert_eq!(length, FIRST_SEGMENT_BYTES << 2);
    }
}
