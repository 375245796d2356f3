//! Recovery: reads the newest snapshot file, then replays every frame after it, in order.
//!
//! The segments are read as one stream of numbered frames. The stream ends at the first position without a
//! complete frame. If any frame was begun after that position, the position is damaged, because a frame is
//! written only after the one before it is durable; otherwise it is the end of the log. If the acknowledgement marker
//! names a later revision, the end is damaged, too; otherwise a frame that was begun there is a write that was
//! interrupted.

use std::{
    path::{Path, PathBuf},
    sync::mpsc::sync_channel,
    thread,
};

use crate::{
    Error, Revision,
    head::{Draft, Head},
    log::file::{
        ack_marker::AckMarker,
        frame::{Corruption, Entry, FrameHeader},
        layout::{self, Listing},
        scan::{Frame, Scan},
        sealed_keys::{ReplayOptions, SealedKeys},
        segment::FIRST_FRAME,
        snapshot_file,
        verify::TornTail,
    },
};

/// Recovered state of a directory, and where writing continues.
#[derive(Debug, Default)]
pub(crate) struct Recovery {
    pub(crate) head: Head,
    /// The revision of the snapshot file that was read.
    pub(crate) snapshot_file: Option<Revision>,
    /// Number, path and the highest revision of each segment.
    pub(crate) segments: Vec<(u64, PathBuf, Revision)>,
    /// End of the last frame: index in `segments`, and offset in that segment.
    pub(crate) end: (usize, u64),
    /// The number of the next frame.
    pub(crate) sequence: u64,
    pub(crate) replayed_bytes: u64,
    pub(crate) frames: u64,
    pub(crate) records: u64,
    pub(crate) torn: Option<TornTail>,
    /// The live keys whose values could not be opened.
    pub(crate) sealed: SealedKeys,
    /// Where the stream of frames first stopped before the end of a segment.
    stopped: Option<(PathBuf, Corruption)>,
    /// Why a newer snapshot file could not be used.
    bad_snapshot_file: Option<Error>,
}

/// How many portions of frames the scan may be ahead of the replay.
const PORTIONS_AHEAD: usize = 8;

const ADVICE: &str = "nothing was changed; restore the directory from a backup";

const END_ADVICE: &str = "nothing was changed; restore the directory from a backup, or give up the damaged end of the log \
                          with `setpoint store truncate`";

/// Reads everything in `listing`, the files of `dir`, and checks that nothing acknowledged is missing. Changes nothing
/// on disk.
pub(crate) fn recover(dir: &Path, listing: &Listing, options: &ReplayOptions) -> Result<Recovery, Error> {
    let recovered = replay(listing, options)?;
    match AckMarker::read(dir)? {
        Some(marker) if marker.revision > recovered.head.revision => Err(recovered.missing_end(dir, &marker)),
        _ => Ok(recovered),
    }
}

/// Reads everything in `listing`, as far as it is complete.
pub(crate) fn replay(listing: &Listing, options: &ReplayOptions) -> Result<Recovery, Error> {
    let mut recovered = Recovery::default();
    recovered.load_snapshot_file(listing, options)?;
    for (number, path) in &listing.segments {
        recovered.replay_segment(*number, path, options)?;
    }
    recovered.check_snapshot_file()?;
    Ok(recovered)
}

impl Recovery {
    /// Logs the result for the operator.
    pub(crate) fn log_outcome(&self) {
        if let Some(torn) = &self.torn {
            let file = torn.file.display();
            tracing::warn!(%file, offset = torn.offset, "discarded an incomplete write at the end of the log, which is not known to have been acknowledged");
        }
        tracing::info!(
            revision = self.head.revision.get(),
            keys = self.head.index.map().len(),
            frames = self.frames,
            "store recovered"
        );
    }

    /// Loads the newest snapshot file that is not damaged.
    fn load_snapshot_file(&mut self, listing: &Listing, options: &ReplayOptions) -> Result<(), Error> {
        for (revision, path) in listing.snapshot_files.iter().rev() {
            match snapshot_file::read(path) {
                Ok((index, _)) => {
                    self.head.index = self.sealed.open_index(index, options);
                    self.head.revision = *revision;
                    self.head.compacted = *revision;
                    self.snapshot_file = Some(*revision);
                    return Ok(());
                }
                Err(error @ Error::Corrupt { .. }) => {
                    self.bad_snapshot_file.get_or_insert(error);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// A damaged snapshot file may be skipped only if the log still reaches back to the one before it. The check
    /// of revisions covers a gap after an older snapshot file; without any, the log must start at the first
    /// revision, and an empty log proves nothing.
    fn check_snapshot_file(&mut self) -> Result<(), Error> {
        match self.bad_snapshot_file.take() {
            Some(error) if self.records == 0 => Err(error),
            _ => Ok(()),
        }
    }

    /// Replays a segment: a second thread reads and checks its frames while this one applies them.
    fn replay_segment(&mut self, number: u64, path: &Path, options: &ReplayOptions) -> Result<(), Error> {
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
                self.replay_frame(path, at, frame, options)?;
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
        options: &ReplayOptions,
    ) -> Result<(), Error> {
        self.check_order(path, frame.start, &frame.header)?;
        let (bytes, end, before) = (frame.end - frame.start, frame.end, self.records);
        self.replay(path, frame, options)?;
        if self.records > before {
            self.replayed_bytes += bytes;
        }
        self.end = (at, end);
        self.frames += 1;
        Ok(())
    }

    /// Checks that frames are numbered without a gap. Before the first replayed transaction a gap is harmless,
    /// because then the revisions show whether anything after the snapshot file is missing.
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

    fn replay(&mut self, path: &Path, frame: Frame, options: &ReplayOptions) -> Result<(), Error> {
        self.sequence = frame.header.sequence + 1;
        self.stopped = None;
        self.torn = None;
        let mut draft = Draft::new(std::mem::take(&mut self.head), frame.header.time);
        let mut compacted = Revision::ZERO;
        for entry in frame.entries {
            match entry {
                Entry::Commit { revision, .. } if revision <= draft.revision() => {}
                Entry::Commit { revision, mut ops } if revision == draft.revision().next() => {
                    self.sealed.open_ops(&mut ops, options);
                    draft.apply(revision, ops);
                    self.records += 1;
                }
                Entry::Commit { .. } => return Err(self.missing_revisions(path, frame.start)),
                Entry::Compact { revision } => compacted = revision,
            }
        }
        self.head = draft.finish(&options.limits);
        self.head.compact(compacted.min(self.head.revision));
        Ok(())
    }

    /// The error for a gap between the recovered revision and this frame.
    fn missing_revisions(&mut self, path: &Path, offset: u64) -> Error {
        let what = "revisions before this frame are missing";
        self.bad_snapshot_file
            .take()
            .unwrap_or_else(|| corrupt(path, offset, what))
    }

    /// The error for an end of the log that was acknowledged and is not there.
    fn missing_end(self, dir: &Path, marker: &AckMarker) -> Error {
        let marked = || {
            let what = "the log ends before this";
            (
                layout::segment(dir, marker.segment),
                Corruption {
                    offset: marker.end,
                    what,
                },
            )
        };
        let (file, bad) = self.stopped.unwrap_or_else(marked);
        Error::Corrupt {
            file,
            offset: bad.offset,
            what: format!(
                "{}; the log ends at revision {}, and revision {} was acknowledged",
                bad.what, self.head.revision, marker.revision
            ),
            advice: END_ADVICE,
        }
    }

    /// Records where the frames of a segment stop. A frame that was begun there is damage if another one follows.
    fn check_nothing_behind(&mut self, scan: &mut Scan, bad: Option<Corruption>) -> Result<(), Error> {
        let begun = bad.is_some();
        let bad = bad.unwrap_or(Corruption {
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
