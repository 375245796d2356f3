//! Damaged files: a torn write at the end is discarded, other damage is reported with its offset.

use super::*;
use crate::log::file::{block::BLOCK_BYTES, frame::FRAME_HEADER_BYTES, segment::FIRST_FRAME};

/// Offset of the nth frame of [`filled`] in the first segment.
fn frame(n: u64) -> usize {
    FIRST_FRAME as usize + (n as usize - 1) * BLOCK_BYTES
}

/// Every class of byte in a frame: each header field, the record's header, its payload.
const OFFSETS: &[(&str, usize)] = &[
    ("frame checksum", 0),
    ("frame length", 4),
    ("frame sequence", 8),
    ("frame time", 16),
    ("frame count", 24),
    ("record checksum", FRAME_HEADER_BYTES),
    ("record length", FRAME_HEADER_BYTES + 4),
    ("record revision", FRAME_HEADER_BYTES + 8),
    ("record kind", FRAME_HEADER_BYTES + 16),
    ("operation count", FRAME_HEADER_BYTES + 20),
    ("operation tag", FRAME_HEADER_BYTES + 24),
    ("key", FRAME_HEADER_BYTES + 30),
    ("value", FRAME_HEADER_BYTES + 51),
];

/// Damages a directory of nine commits and opens it.
fn damaged(change: impl FnOnce(&mut Vec<u8>)) -> Result<Store, Error> {
    let dir = tempfile::tempdir().unwrap();
    filled(dir.path(), 9);
    edit(&segments(dir.path())[0], change);
    let verified = Store::verify(dir.path());
    let opened = open(dir.path());
    assert_eq!(verified.is_ok(), opened.is_ok(), "verifying agrees with opening");
    opened
}

#[track_caller]
fn check_corrupt(opened: Result<Store, Error>, at: std::ops::Range<u64>) {
    match opened {
        Err(Error::Corrupt { file, offset, .. }) => {
            assert!(at.contains(&offset), "{offset} is in {at:?}");
            assert!(file.to_string_lossy().contains("segment-0000000000000001"));
        }
        Err(error) => panic!("expected damage, got {error}"),
        Ok(store) => panic!("opened at {}", store.revision()),
    }
}

#[test]
fn a_flipped_bit_before_the_last_frame_is_damage() {
    for (name, offset_in_frame) in OFFSETS {
        println!("{name}");
        let opened = damaged(|bytes| bytes[frame(5) + offset_in_frame] ^= 0x10);
        check_corrupt(opened, frame(5) as u64..frame(6) as u64);
    }
}

#[test]
fn a_flipped_bit_in_an_unmarked_last_frame_reads_as_a_torn_end() {
    for (name, offset_in_frame) in OFFSETS {
        println!("{name}");
        let store = damaged(|bytes| bytes[frame(9) + offset_in_frame] ^= 0x10).unwrap();
        check_holds(&store.snapshot(), 8);
        assert_eq!(put(&store, "next", b"").unwrap(), Revision::new(9));
    }
}

/// Damages the last frame of a directory of nine durable commits, and opens it.
fn damaged_end(change: impl FnOnce(&mut Vec<u8>)) -> (tempfile::TempDir, Result<Store, Error>) {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path(), durable()).unwrap();
    for n in 1..=9 {
        put(&store, &format!("k{n:04}"), b"value").unwrap();
    }
    drop(store);
    edit(&segments(dir.path())[0], change);
    let opened = Store::open(dir.path(), durable());
    (dir, opened)
}

#[test]
fn damage_to_an_acknowledged_last_frame_is_never_taken_for_a_torn_end() {
    for (name, offset_in_frame) in OFFSETS {
        println!("{name}");
        let (dir, opened) = damaged_end(|bytes| bytes[frame(9) + offset_in_frame] ^= 0x10);
        check_corrupt(opened, frame(9) as u64..frame(10) as u64);
        assert!(matches!(Store::verify(dir.path()), Err(Error::Corrupt { .. })));
    }
    let (_dir, zeroed) = damaged_end(|bytes| bytes[frame(9)..frame(10)].fill(0));
    check_corrupt(zeroed, frame(9) as u64..frame(10) as u64);
    let (_dir, cut) = damaged_end(|bytes| bytes.truncate(frame(9) + 40));
    check_corrupt(cut, frame(9) as u64..frame(10) as u64);
}

#[test]
fn the_error_for_a_damaged_end_names_what_is_lost_and_how_to_give_it_up() {
    let (_dir, opened) = damaged_end(|bytes| bytes[frame(9) + 60] ^= 1);
    let error = opened.unwrap_err().to_string();
    for part in [
        "segment-0000000000000001.log is damaged at byte 36896",
        "the log ends at revision 8, and revision 9 was acknowledged",
        "store truncate",
    ] {
        assert!(error.contains(part), "{error}");
    }
}

#[test]
fn a_damaged_end_is_given_up_on_request_only() {
    let (dir, opened) = damaged_end(|bytes| bytes[frame(9) + 60] ^= 1);
    drop(opened);
    let report = Store::truncate(dir.path()).unwrap();
    assert_eq!((report.revision.get(), report.acknowledged.get()), (8, 9));
    assert_eq!(Store::truncate(dir.path()).unwrap().acknowledged.get(), 8);
    let store = Store::open(dir.path(), durable()).unwrap();
    check_holds(&store.snapshot(), 8);
    put(&store, "k0009", b"value").unwrap();
    drop(store);
    check_holds(&Store::open(dir.path(), durable()).unwrap().snapshot(), 9);
}

#[test]
fn damage_before_the_end_cannot_be_truncated() {
    let (dir, opened) = damaged_end(|bytes| bytes[frame(5) + 60] ^= 1);
    drop(opened);
    assert!(matches!(Store::truncate(dir.path()), Err(Error::Corrupt { .. })));
}

#[test]
fn a_missing_last_segment_is_damage() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path(), durable()).unwrap();
    for n in 1..=20 {
        put(&store, &format!("k{n:04}"), b"value").unwrap();
    }
    drop(store);
    for path in &segments(dir.path())[1..] {
        std::fs::remove_file(path).unwrap();
    }
    let error = Store::open(dir.path(), durable()).unwrap_err();
    assert!(
        error.to_string().contains("revision 20 was acknowledged"),
        "{error}"
    );
}

/// A store of an earlier version has no marker, and a crashed machine may leave an old or damaged one.
#[test]
fn a_torn_end_that_no_marker_contradicts_is_discarded() {
    let markers: [fn(&Path); 3] = [
        |marker| std::fs::remove_file(marker).unwrap(),
        |marker| std::fs::write(marker, b"").unwrap(),
        |marker| edit(marker, |bytes| bytes[10] ^= 1),
    ];
    for change in markers {
        let (dir, opened) = damaged_end(|bytes| bytes[frame(9) + 60] ^= 1);
        drop(opened);
        change(&layout::ack_marker(dir.path()));
        let report = Store::verify(dir.path()).unwrap();
        assert_eq!(report.torn.unwrap().offset, frame(9) as u64 + 32);
        let store = Store::open(dir.path(), durable()).unwrap();
        check_holds(&store.snapshot(), 8);
    }
}

#[test]
fn a_flipped_bit_in_padding_is_harmless() {
    let store = damaged(|bytes| bytes[frame(6) - 1] ^= 1).unwrap();
    check_holds(&store.snapshot(), 9);
}

#[test]
fn a_zeroed_block_before_the_last_frame_is_damage() {
    let opened = damaged(|bytes| bytes[frame(4)..frame(5)].fill(0));
    check_corrupt(opened, frame(4) as u64..frame(5) as u64);
}

#[test]
fn a_damaged_segment_header_is_damage() {
    for offset in [0, 8, 16, 24, 32] {
        check_corrupt(damaged(|bytes| bytes[offset] ^= 1), 0..1);
    }
}

#[test]
fn a_file_cut_inside_its_last_frame_ends_before_it() {
    for length in [frame(9), frame(9) + 1, frame(9) + 40, frame(9) + 60] {
        let store = damaged(|bytes| bytes.truncate(length)).unwrap();
        check_holds(&store.snapshot(), 8);
    }
}

#[test]
fn a_torn_batch_of_several_blocks_is_cut_whatever_part_of_it_arrived() {
    for lost in 0..4 {
        let dir = tempfile::tempdir().unwrap();
        filled(dir.path(), 2);
        let store = open(dir.path()).unwrap();
        put(&store, "large", &[7; 3 * BLOCK_BYTES]).unwrap();
        drop(store);
        let block = frame(3) + lost * BLOCK_BYTES;
        edit(&segments(dir.path())[0], |bytes| {
            bytes[block..block + BLOCK_BYTES].fill(0)
        });
        let report = Store::verify(dir.path()).unwrap();
        // Without its first block, a frame leaves no trace.
        assert_eq!(report.torn.is_some(), lost > 0);
        let store = open(dir.path()).unwrap();
        check_holds(&store.snapshot(), 2);
        put(&store, "k0003", b"value").unwrap();
        drop(store);
        check_holds(&open(dir.path()).unwrap().snapshot(), 3);
    }
}

#[test]
fn a_cut_or_missing_segment_before_others_is_damage() {
    let dir = tempfile::tempdir().unwrap();
    filled(dir.path(), 40);
    let files = segments(dir.path());
    assert!(files.len() >= 3);
    let whole = std::fs::read(&files[1]).unwrap();
    edit(&files[1], |bytes| bytes.truncate(frame(3)));
    assert!(matches!(open(dir.path()), Err(Error::Corrupt { file, .. }) if file == files[1]));
    std::fs::remove_file(&files[1]).unwrap();
    assert!(matches!(open(dir.path()), Err(Error::Corrupt { .. })));
    std::fs::write(&files[1], whole).unwrap();
    check_holds(&open(dir.path()).unwrap().snapshot(), 40);
}

#[test]
fn frames_of_an_earlier_use_of_the_file_are_not_read() {
    let dir = tempfile::tempdir().unwrap();
    filled(dir.path(), 20);
    let files = segments(dir.path());
    let former = std::fs::read(&files[0]).unwrap();
    // The second segment holds five frames; after them, it gets the bytes of the first one.
    edit(&files[1], |bytes| {
        bytes[frame(6)..].copy_from_slice(&former[frame(6)..])
    });
    let store = open(dir.path()).unwrap();
    check_holds(&store.snapshot(), 20);
    put(&store, "k0021", b"value").unwrap();
    drop(store);
    check_holds(&open(dir.path()).unwrap().snapshot(), 21);
}

#[test]
fn a_frame_at_a_wrong_offset_is_not_read() {
    let store = damaged(|bytes| {
        let last = bytes[frame(9)..frame(10)].to_vec();
        bytes[frame(10)..frame(11)].copy_from_slice(&last);
    });
    check_holds(&store.unwrap().snapshot(), 9);
}
