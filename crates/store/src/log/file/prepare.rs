//! Preparing segments ahead of need, on a thread of its own, so that the sequencer does not wait for it.
//!
//! A segment is filled with zeros once, because overwriting written blocks needs no change of the file
//! system's own records, which makes each later durable write several times faster. A recycled file only
//! gets a new header.

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc,
        mpsc::{Receiver, SyncSender, sync_channel},
    },
    thread::JoinHandle,
};

use crate::{
    Config, Error,
    log::file::{
        block::{BLOCK_BYTES, Block},
        disk::{Disk, Mode, write_whole},
        layout,
        segment::{FIRST_FRAME, SegmentHeader},
    },
    queue::BATCH_BYTES,
    workers::Stop,
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
    stop: Stop,
}

#[derive(Clone, Copy, Debug)]
struct Request {
    number: u64,
    room: u64,
}

/// The first segment of a store; each next one is four times larger until the configured size is reached.
/// A new store is ready after writing this little.
const FIRST_SEGMENT_BYTES: u64 = 1 << 20;

/// Zeros are made durable in portions, so that other writers of the disk get their turn.
const FILL_BYTES: usize = 1 << 20;
const FILLS_PER_SYNC: u64 = 8;

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
    pub(crate) fn make(&self, number: u64, room: u64, stop: &Stop) -> Result<(), Error> {
        let path = match self.find_spare(room)? {
            Some(spare) => spare,
            None => self.fill_new(number, room, stop)?,
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

    fn fill_new(&self, number: u64, room: u64, stop: &Stop) -> Result<PathBuf, Error> {
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
        for (fill, offset) in (1..).zip((0..size).step_by(zeros.len())) {
            if stop.is_set() {
                return Err(Error::Closed);
            }
            let length = zeros.len().min((size - offset) as usize);
            write_whole(&*file, offset, &zeros[..length]).map_err(failed())?;
            if fill % FILLS_PER_SYNC == 0 {
                file.sync().map_err(failed())?;
            }
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
        let stop = Stop::default();
        let watched = stop.clone();
        let work = move || {
            for request in queue {
                let result = maker.make(request.number, request.room, &watched);
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
            stop,
        })
    }

    /// Asks for a segment. The one asked for before has been taken.
    pub(crate) fn request(&self, number: u64, room: u64) {
        if let Some(requests) = &self.requests {
            // The thread ends only after this sender is dropped, and the slot is free by then.
            requests.send(Request { number, room }).ok();
        }
    }

    /// Waits for the segment that was asked for and returns its number.
    pub(crate) fn take(&self) -> Result<u64, Error> {
        self.made.recv().map_err(|_| Error::Closed)?
    }
}

impl Drop for Preparer {
    fn drop(&mut self) {
        self.stop.set();
        drop(self.requests.take());
        if let Some(Err(_)) = self.thread.take().map(JoinHandle::join) {
            tracing::error!("the store's segment thread has panicked");
        }
    }
}
