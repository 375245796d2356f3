//! Preparing segments ahead of need, on a thread of its own, so that the sequencer does not wait for it.
//!
//! A segment is filled with zeros once, because overwriting written blocks needs no change of the file
//! system's own records, which makes each later durable write several times faster. A recycled file only
//! gets a new header.
//!
//! Filling uses the same disk as the commits, so it goes in small portions and keeps pace with them: the
//! next segment is ready when the current one is half full, and a store that writes nothing fills nothing.

use std::{
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
    batch::BATCH_BYTES,
    log::file::{
        block::{BLOCK_BYTES, Block},
        disk::{Disk, Mode, write_whole},
        layout,
        segment::{FIRST_FRAME, SegmentHeader},
    },
};

/// How segments are made.
#[derive(Clone, Debug)]
pub(crate) struct Maker {
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) dir: PathBuf,
    segment_bytes: u64,
    frame_limit: u64,
}

/// The thread that makes the next segment while the current one is written. At most one request is under
/// way at a time.
#[derive(Debug)]
pub(crate) struct Preparer {
    requests: Option<SyncSender<Request>>,
    made: Receiver<Result<u64, Error>>,
    thread: Option<JoinHandle<()>>,
    pace: Arc<Pace>,
    /// What `pace` was last told.
    allowed: u64,
}

/// How far a segment may be filled by now, in parts of [`PARTS`], and whether it is still wanted.
#[derive(Debug)]
pub(crate) struct Pace {
    state: Mutex<Allowance>,
    changed: Condvar,
}

#[derive(Debug)]
struct Allowance {
    parts: u64,
    stopped: bool,
}

#[derive(Clone, Copy, Debug)]
struct Request {
    number: u64,
    room: u64,
}

/// The first segment of a store; each next one is four times larger until the configured size is reached.
/// A new store is ready after writing this little.
const FIRST_SEGMENT_BYTES: u64 = 1 << 20;

/// Zeros are written in portions, so that a commit never waits long behind one.
const FILL_BYTES: usize = 256 << 10;

/// In how many parts the pace is measured.
const PARTS: u64 = 64;

/// By how much filling is ahead of writing.
const LEAD: u64 = 2;

// === impl Maker ===

impl Maker {
    pub(crate) fn new(disk: Arc<dyn Disk>, dir: &Path, config: &Config) -> Maker {
        let frame = config.max_txn_bytes.max(BATCH_BYTES) + BLOCK_BYTES as u64;
        Maker {
            disk,
            dir: dir.to_owned(),
            segment_bytes: config.segment_bytes,
            frame_limit: frame.next_multiple_of(BLOCK_BYTES as u64),
        }
    }

    /// Makes segment `number`, with room for at least `room` bytes of frames, from a spare file or a new
    /// one. It gets its name only when it is complete and durable.
    pub(crate) fn make(&self, number: u64, room: u64, pace: &Pace) -> Result<(), Error> {
        let path = match self.find_spare(room)? {
            Some(spare) => spare,
            None => self.fill_new(number, room, pace)?,
        };
        self.write_header(&path, number)?;
        let name = layout::segment(&self.dir, number);
        self.disk
            .rename(&path, &name)
            .map_err(Error::io("rename", &path))?;
        self.disk
            .sync_dir(&self.dir)
            .map_err(Error::io("sync", &self.dir))
    }

    fn find_spare(&self, room: u64) -> Result<Option<PathBuf>, Error> {
        let spares = layout::list(&self.dir)?.spares;
        let fits = |path: &PathBuf| {
            path.metadata()
                .is_ok_and(|metadata| metadata.len() >= FIRST_FRAME + room)
        };
        Ok(spares.into_iter().find(fits))
    }

    fn fill_new(&self, number: u64, room: u64, pace: &Pace) -> Result<PathBuf, Error> {
        let path = layout::unfinished(&layout::segment(&self.dir, number));
        let failed = || Error::io("fill", &path);
        let size = self
            .size(number)
            .max(FIRST_FRAME + room.next_multiple_of(BLOCK_BYTES as u64));
        let file = self.disk.open(&path, Mode::Fill).map_err(failed())?;
        let mut block = Block::default();
        block.start_with(FILL_BYTES.min(size as usize));
        block.put(&vec![0; FILL_BYTES.min(size as usize)]);
        let zeros = block.as_slice();
        for offset in (0..size).step_by(zeros.len()) {
            pace.wait_for(offset * PARTS / size)?;
            let length = zeros.len().min((size - offset) as usize);
            write_whole(&*file, offset, &zeros[..length]).map_err(failed())?;
        }
        file.sync().map_err(failed())?;
        Ok(path)
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

// === impl Preparer ===

impl Preparer {
    pub(crate) fn start(maker: Maker) -> Result<Preparer, Error> {
        let (requests, queue) = sync_channel::<Request>(1);
        let (results, made) = sync_channel(1);
        let pace = Arc::new(Pace::new(0));
        let kept = pace.clone();
        let work = move || {
            for request in queue {
                let result = maker.make(request.number, request.room, &kept);
                if results.send(result.map(|()| request.number)).is_err() {
                    break;
                }
            }
        };
        let thread = std::thread::Builder::new()
            .name("store-segments".into())
            .spawn(work)
            .map_err(Error::io("start", "store-segments"))?;
        Ok(Preparer {
            requests: Some(requests),
            made,
            thread: Some(thread),
            pace,
            allowed: 0,
        })
    }

    /// Asks for a segment. The one asked for before has been taken.
    pub(crate) fn request(&mut self, number: u64, room: u64) {
        self.allow(0);
        if let Some(requests) = &self.requests {
            // The thread ends only after this sender is dropped, and the slot is free by then.
            requests.send(Request { number, room }).ok();
        }
    }

    /// Tells how much of the current segment is used, so that the next one is filled in step.
    pub(crate) fn keep_pace(&mut self, used: u64, size: u64) {
        let parts = used.saturating_mul(PARTS * LEAD) / size.max(1);
        if parts > self.allowed {
            self.allow(parts);
        }
    }

    /// Waits for the segment that was asked for and returns its number.
    pub(crate) fn take(&mut self) -> Result<u64, Error> {
        self.allow(PARTS);
        self.made.recv().map_err(|_| Error::Closed)?
    }

    fn allow(&mut self, parts: u64) {
        self.allowed = parts;
        self.pace.state.lock().parts = parts;
        self.pace.changed.notify_one();
    }
}

// === impl Pace ===

impl Pace {
    /// Allows the first `parts`.
    fn new(parts: u64) -> Pace {
        let stopped = false;
        Pace {
            state: Mutex::new(Allowance { parts, stopped }),
            changed: Condvar::new(),
        }
    }

    /// Allows everything at once.
    pub(crate) fn at_once() -> Pace {
        Pace::new(PARTS)
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

impl Drop for Preparer {
    fn drop(&mut self) {
        self.pace.stop();
        drop(self.requests.take());
        if let Some(Err(_)) = self.thread.take().map(JoinHandle::join) {
            tracing::error!("the store's segment thread has panicked");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{conformance::SetClock, log::file::disk::RealDisk};

    #[track_caller]
    fn check_allowed(used: u64, parts: u64) {
        let dir = tempfile::tempdir().unwrap();
        let maker = Maker::new(Arc::new(RealDisk), dir.path(), &SetClock::default().config());
        let mut preparer = Preparer::start(maker).unwrap();
        preparer.keep_pace(used, 1000);
        preparer.keep_pace(0, 1000);
        assert_eq!(preparer.pace.state.lock().parts, parts);
    }

    #[test]
    fn a_segment_is_filled_in_step_with_the_one_before() {
        check_allowed(0, 0);
        check_allowed(250, PARTS / 2);
        check_allowed(500, PARTS);
    }

    #[test]
    fn filling_waits_for_what_is_not_allowed_until_it_is_stopped() {
        let pace = Pace::new(2);
        assert!(pace.wait_for(0).is_ok() && pace.wait_for(1).is_ok());
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| pace.wait_for(2));
            pace.stop();
            assert!(matches!(waiting.join().unwrap(), Err(Error::Closed)));
        });
    }

    #[test]
    fn a_segment_that_is_waited_for_is_filled_at_once() {
        let dir = tempfile::tempdir().unwrap();
        let maker = Maker::new(Arc::new(RealDisk), dir.path(), &SetClock::default().config());
        let mut preparer = Preparer::start(maker).unwrap();
        preparer.request(2, 0);
        assert_eq!(preparer.take().unwrap(), 2);
        let length = layout::segment(dir.path(), 2).metadata().unwrap().len();
        assert_eq!(length, FIRST_SEGMENT_BYTES << 2);
    }
}
