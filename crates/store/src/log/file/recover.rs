//! Recovery: the newest image, then every frame behind it, in order.
//!
//! The segments are read as one stream of numbered frames. The stream ends at the first place without a
//! whole frame. If any frame was begun behind that place, the place is damage, because a frame is written
//! only after the one before it is durable; otherwise it is the end of the log, and what was begun there
//! was never acknowledged.

use std::{
    path::{Path, PathBuf},
    sync::mpsc::sync_channel,
    thread,
};

use crate::{
    Error, HistoryLimits, Revision,
    batch::Draft,
    head::Head,
    image,
    log::file::{
        frame::{Bad, Entry, FrameHeader},
        layout::Listing,
        scan::{Frame, Scan},
        segment::FIRST_FRAME,
        verify::TornTail,
    },
};

/// What a directory holds, and where writing goes on.
#[derive(Debug, Default)]
pub(crate) struct Recovered {
    pub(crate) head: Head,
    /// The revision of the image that was read.
    pub(crate) image: Option<Revision>,
    /// Number, path and the highest revision of each segment.
    pub(crate) segments: Vec<(u64, PathBuf, Revision)>,
    /// The position in `segments`, and the offset in that segment, behind the last frame.
    pub(crate) end: (usize, u64),
    /// The number of the next frame.
    pub(crate) sequence: u64,
    pub(crate) replayed_bytes: u64,
    pub(crate) frames: u64,
    pub(crate) records: u64,
    pub(crate) torn: Option<TornTail>,
    /// Where the stream of frames stopped in each segment that did not end at its size.
    stopped: Option<(PathBuf, Bad)>,
    /// Why a newer image could not be used.
    bad_image: Option<Error>,
}

/// How many portions of frames may wait to be applied.
const PORTIONS_AHEAD: usize = 8;

const ADVICE: &str = "nothing was changed; restore the directory from a backup";

/// Reads everything in `listing`. Changes nothing on disk.
pub(crate) fn recover(listing: &Listing, limits: &HistoryLimits) -> Result<Recovered, Error> {
    let mut recovered = Recovered::default();
    recovered.load_image(listing)?;
    for (number, path) in &listing.segments {
        recovered.replay_segment(*number, path, limits)?;
    }
    recovered.check_image()?;
    Ok(recovered)
}

impl Recovered {
    /// Tells the log what was found, for the person who starts the store.
    pub(crate) fn tell(&self) {
        if let Some(torn) = &self.torn {
            let file = torn.file.display();
            tracing::warn!(%file, offset = torn.offset, "cut an unfinished write from the end");
        }
        tracing::info!(
            revision = self.head.revision.get(),
            keys = self.head.index.map().len(),
            frames = self.frames,
            "store is read"
        );
    }

    /// Takes the newest image that is whole.
    fn load_image(&mut self, listing: &Listing) -> Result<(), Error> {
        for (revision, path) in listing.images.iter().rev() {
            match image::read(path) {
                Ok((index, _)) => {
                    self.head.index = index;
                    self.head.revision = *revision;
                    self.head.compacted = *revision;
                    self.image = Some(*revision);
                    return Ok(());
                }
                Err(error @ Error::Corrupt { .. }) => {
                    self.bad_image.get_or_insert(error);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// A damaged image may be passed over only if the log still reaches as far back as the one before it.
    /// The log's own check covers a gap behind an older image; without any image the log must start at the
    /// first revision, and an empty log proves nothing.
    fn check_image(&mut self) -> Result<(), Error> {
        match self.bad_image.take() {
            Some(error) if self.records == 0 => Err(error),
            _ => Ok(()),
        }
    }

    /// One thread reads and checks the frames of a segment while this one applies them.
    fn replay_segment(&mut self, number: u64, path: &Path, limits: &HistoryLimits) -> Result<(), Error> {
        let mut scan = Scan::open(path, number)?;
        let at = self.segments.len();
        let before = self.frames;
        let bad = thread::scope(|scope| {
            let (sender, portions) = sync_channel(PORTIONS_AHEAD);
            let scanning = scope.spawn(|| {
                let sender = sender;
                scan.run(&sender)
            });
            for frame in portions.into_iter().flatten() {
                self.replay_frame(path, at, frame, limits)?;
            }
            scanning.join().expect("reading a segment returns its errors")
        })?;
        self.check_nothing_behind(&mut scan, bad)?;
        if at == 0 && self.frames == before {
            self.end = (0, FIRST_FRAME);
        }
        self.segments.push((number, path.to_owned(), self.head.revision));
        Ok(())
    }

    fn replay_frame(
        &mut self,
        path: &Path,
        at: usize,
        frame: Frame,
        limits: &HistoryLimits,
    ) -> Result<(), Error> {
        self.check_order(path, frame.start, &frame.header)?;
        let (bytes, end, before) = (frame.end - frame.start, frame.end, self.records);
        self.replay(path, frame, limits)?;
        if self.records > before {
            self.replayed_bytes += bytes;
        }
        self.end = (at, end);
        self.frames += 1;
        Ok(())
    }

    /// Frames are numbered without a gap. Before anything was replayed a gap is harmless, because then the
    /// revisions decide whether something is missing behind the image.
    fn check_order(&self, path: &Path, offset: u64, header: &FrameHeader) -> Result<(), Error> {
        if header.sequence == self.sequence || (self.records == 0 && self.stopped.is_none()) {
            return Ok(());
        }
        let (file, offset, what) = match &self.stopped {
            Some((stopped, bad)) => (stopped.as_path(), bad.offset, bad.what),
            None => (path, offset, "frames are missing before this one"),
        };
        Err(corrupt(file, offset, what))
    }

    fn replay(&mut self, path: &Path, frame: Frame, limits: &HistoryLimits) -> Result<(), Error> {
        self.sequence = frame.header.sequence + 1;
        self.stopped = None;
        self.torn = None;
        let mut draft = Draft::new(std::mem::take(&mut self.head), frame.header.time);
        let mut compacted = Revision::ZERO;
        for entry in frame.entries {
            match entry {
                Entry::Commit { revision, .. } if revision <= draft.revision() => {}
                Entry::Commit { revision, ops } if revision == draft.revision().next() => {
                    draft.apply(revision, ops);
                    self.records += 1;
                }
                Entry::Commit { .. } => return Err(self.missing(path, frame.start)),
                Entry::Compact { revision } => compacted = revision,
            }
        }
        self.head = draft.finish(limits);
        self.head.compact(compacted.min(self.head.revision));
        Ok(())
    }

    /// Revisions between what is known and this frame are nowhere.
    fn missing(&mut self, path: &Path, offset: u64) -> Error {
        let what = "revisions before this frame are missing";
        self.bad_image
            .take()
            .unwrap_or_else(|| corrupt(path, offset, what))
    }

    /// Remembers where the frames of a segment stop. What was begun there is damage if anything follows.
    fn check_nothing_behind(&mut self, scan: &mut Scan, bad: Option<Bad>) -> Result<(), Error> {
        let begun = bad.is_some();
        let bad = bad.unwrap_or(Bad {
            offset: scan.position,
            what: "a frame is missing or its header is damaged",
        });
        if scan.find_later()?.is_some() {
            return Err(corrupt(&scan.path, bad.offset, bad.what));
        }
        if begun {
            self.torn = Some(TornTail {
                file: scan.path.clone(),
                offset: bad.offset,
            });
        }
        if self.stopped.is_none() {
            self.stopped = Some((scan.path.clone(), bad));
        }
        Ok(())
    }
}

fn corrupt(file: &Path, offset: u64, what: &str) -> Error {
    Error::Corrupt {
        file: file.to_owned(),
        offset,
        what: what.to_owned(),
        advice: ADVICE,
    }
}
