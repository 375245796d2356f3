//! Which images are removed: pure.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use jiff::Timestamp;
use setpoint_container_runtime::Image;

/// When images are removed, as the kubelet's flags configure it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ImageGcPolicy {
    /// Images are removed once this part of their disk is in use, in per cent. 100 never removes any.
    pub high_threshold: u8,
    /// Until this part is in use.
    pub low_threshold: u8,
    /// Images that were found more recently are kept: a container may be about to use them.
    pub min_age: Duration,
}

/// The use of the disk of images.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct DiskUsage {
    pub(super) available: u64,
    pub(super) capacity: u64,
}

/// When images were found and used, by id.
#[derive(Debug, Default)]
pub(super) struct ImageRecords(BTreeMap<String, ImageRecord>);

#[derive(Debug, Clone, Copy)]
struct ImageRecord {
    first_detected: Timestamp,
    /// The time of the last look at which a container used it.
    last_used: Option<Timestamp>,
}

// === impl ImageGcPolicy ===

impl Default for ImageGcPolicy {
    fn default() -> Self {
        Self {
            high_threshold: 85,
            low_threshold: 80,
            min_age: Duration::from_secs(120),
        }
    }
}

impl ImageGcPolicy {
    /// The bytes to free on a disk with this use.
    pub(super) fn excess(&self, usage: DiskUsage) -> u64 {
        let capacity = u128::from(usage.capacity.max(1));
        let available = u128::from(usage.available).min(capacity);
        let used = 100 - available * 100 / capacity;
        if self.high_threshold >= 100 || used < u128::from(self.high_threshold) {
            return 0;
        }
        let goal = capacity * u128::from(100_u8.saturating_sub(self.low_threshold)) / 100;
        u64::try_from(goal.saturating_sub(available)).unwrap_or(u64::MAX)
    }
}

// === impl DiskUsage ===

impl DiskUsage {
    /// The use of the file system of a path.
    pub(super) fn read(path: &str) -> Option<Self> {
        let file_system = rustix::fs::statvfs(Path::new(path)).ok()?;
        let bytes = |blocks: u64| blocks.saturating_mul(file_system.f_frsize);
        Some(Self {
            available: bytes(file_system.f_bavail),
            capacity: bytes(file_system.f_blocks),
        })
    }
}

// === impl ImageRecords ===

impl ImageRecords {
    /// Notes which images are there now, and which of them containers use.
    pub(super) fn update(&mut self, images: &[Image], in_use: &BTreeSet<&str>, now: Timestamp) {
        self.0.retain(|id, _| images.iter().any(|image| image.id == *id));
        for image in images {
            let record = self.0.entry(image.id.clone()).or_insert(ImageRecord {
                first_detected: now,
                last_used: None,
            });
            let mut names = [&image.id].into_iter().chain(&image.tags).chain(&image.digests);
            if names.any(|name| in_use.contains(name.as_str())) {
                record.last_used = Some(now);
            }
        }
    }

    /// The ids of images that may be removed, the one that was not used for longest first.
    pub(super) fn unused(&self, images: &[Image], policy: &ImageGcPolicy, now: Timestamp) -> Vec<String> {
        let is_old = |record: &ImageRecord| {
            let age = Duration::try_from(now.duration_since(record.first_detected));
            age.is_ok_and(|age| age >= policy.min_age)
        };
        let candidate = |image: &Image| {
            let record = self.0.get(&image.id)?;
            let is_unused = record.last_used != Some(now) && is_old(record) && !is_kept(image);
            is_unused.then(|| (record.last_used, record.first_detected, image.id.clone()))
        };
        let mut unused: Vec<_> = images.iter().filter_map(candidate).collect();
        unused.sort();
        unused.into_iter().map(|(.., id)| id).collect()
    }
}

/// Whether the runtime needs the image: those it pins, and that of the sandboxes, which runtimes before containerd 1.7 do
/// not pin.
fn is_kept(image: &Image) -> bool {
    let is_pause = |tag: &String| {
        let name = tag.rsplit_once(':').map_or(tag.as_str(), |(name, _)| name);
        name.ends_with("/pause")
    };
    image.pinned || image.tags.iter().any(is_pause)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_excess(available: u64, expected: u64) {
        let usage = DiskUsage {
            available,
            capacity: 1000,
        };
        assert_eq!(ImageGcPolicy::default().excess(usage), expected);
    }

    #[test]
    fn a_disk_that_is_85_per_cent_full_is_freed_to_80() {
        check_excess(160, 0);
        check_excess(150, 50);
        check_excess(0, 200);
        let never = ImageGcPolicy {
            high_threshold: 100,
            ..ImageGcPolicy::default()
        };
        let full = DiskUsage {
            available: 0,
            capacity: 10,
        };
        assert_eq!(never.excess(full), 0);
    }

    fn image(id: &str) -> Image {
        Image {
            id: id.to_owned(),
            tags: vec![format!("example.com/{id}:1")],
            ..Image::default()
        }
    }

    #[test]
    fn the_image_that_was_unused_for_longest_goes_first_and_new_ones_stay() {
        let images = ["a", "b", "used", "pause"].map(image);
        let at = |second| Timestamp::from_second(second).unwrap();
        let mut records = ImageRecords::default();
        let in_use = BTreeSet::from(["example.com/a:1", "used"]);
        records.update(&images, &in_use, at(0));
        let policy = ImageGcPolicy::default();
        assert_eq!(records.unused(&images, &policy, at(0)), [""; 0]);
        let with_new = [images.to_vec(), vec![image("new")]].concat();
        records.update(&with_new, &BTreeSet::from(["used"]), at(300));
        assert_eq!(records.unused(&with_new, &policy, at(300)), ["b", "a"]);
    }
}
