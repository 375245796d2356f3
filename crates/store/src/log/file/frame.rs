//! Frames: the encoding of one batch of commits in a segment. `docs/store.md` has the tables.
//!
//! Every checksum starts from the segment's [`Seed`] and the offset of the bytes, so a frame that a recycled file
//! still holds from its earlier use, or that lies at a wrong offset, is never valid.

use bytes::Bytes;
use crc32fast::Hasher;

use crate::{Millis, Op, Put, Revision, Txn, log::file::block::Block, mmap_value};

pub(crate) const FRAME_HEADER_BYTES: usize = 32;
const RECORD_HEADER_BYTES: usize = 20;

const KIND_COMMIT: u8 = 1;
const KIND_COMPACT: u8 = 2;

const OP_PUT: u8 = 1;
const OP_DELETE: u8 = 2;

/// Encodings of "no stamp" and "does not expire".
const NO_STAMP: u32 = u32::MAX;
const NO_EXPIRY: u64 = u64::MAX;

/// Seed of the checksums of one segment. Number and salt make it differ from every other use of the file.
#[derive(Clone, Debug)]
pub(crate) struct Seed(Hasher);

/// Header of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FrameHeader {
    /// The bytes of all records, without padding.
    pub(crate) length: u32,
    /// Frames are numbered through all segments without a gap.
    pub(crate) sequence: u64,
    /// When the batch was committed.
    pub(crate) time: Millis,
    /// The number of records.
    pub(crate) count: u32,
}

/// Decoded log record.
#[derive(Debug)]
pub(crate) enum Entry {
    /// A transaction was assigned this revision.
    Commit { revision: Revision, ops: Vec<Op> },
    /// The history below this revision was compacted.
    Compact { revision: Revision },
}

/// Bytes that fail their checksum or do not parse, and their offset.
#[derive(Debug)]
pub(crate) struct Corruption {
    pub(crate) offset: u64,
    pub(crate) what: &'static str,
}

// === impl Seed ===

impl Seed {
    pub(crate) fn new(number: u64, salt: u64) -> Seed {
        let mut hasher = Hasher::new();
        hasher.update(&number.to_le_bytes());
        hasher.update(&salt.to_le_bytes());
        Seed(hasher)
    }

    fn sum(&self, offset: u64, bytes: &[u8]) -> u32 {
        let mut hasher = self.0.clone();
        hasher.update(&offset.to_le_bytes());
        hasher.update(bytes);
        hasher.finalize()
    }
}

// === Writing ===

/// Clears `block` and begins a frame in it.
pub(crate) fn begin(block: &mut Block) {
    block.start_with(FRAME_HEADER_BYTES);
    block.put(&[0; FRAME_HEADER_BYTES]);
}

/// Appends a transaction, still without its checksum.
pub(crate) fn put_commit(block: &mut Block, revision: Revision, txn: &Txn) {
    let length = 4 + txn.ops.iter().map(op_bytes).sum::<usize>();
    put_record_header(block, length, revision, KIND_COMMIT);
    block.put(&(txn.ops.len() as u32).to_le_bytes());
    txn.ops.iter().for_each(|op| put_op(block, op));
}

/// Appends a compaction, still without its checksum.
pub(crate) fn put_compact(block: &mut Block, current: Revision, compacted: Revision) {
    put_record_header(block, 8, current, KIND_COMPACT);
    block.put(&compacted.get().to_le_bytes());
}

/// Writes the frame's header and all checksums for a frame at `offset`, and pads the block.
pub(crate) fn seal(block: &mut Block, seed: &Seed, offset: u64, mut header: FrameHeader) {
    let frame = block.as_mut_slice();
    header.length = (frame.len() - FRAME_HEADER_BYTES) as u32;
    let mut at = FRAME_HEADER_BYTES;
    for _ in 0..header.count {
        let end = at + RECORD_HEADER_BYTES + u32_at(frame, at + 4) as usize;
        let sum = seed.sum(offset + at as u64, &frame[at + 4..end]);
        frame[at..at + 4].copy_from_slice(&sum.to_le_bytes());
        at = end;
    }
    frame[4..8].copy_from_slice(&header.length.to_le_bytes());
    frame[8..16].copy_from_slice(&header.sequence.to_le_bytes());
    frame[16..24].copy_from_slice(&header.time.to_le_bytes());
    frame[24..28].copy_from_slice(&header.count.to_le_bytes());
    let sum = seed.sum(offset, &frame[4..FRAME_HEADER_BYTES]);
    frame[..4].copy_from_slice(&sum.to_le_bytes());
    block.pad();
}

fn put_record_header(block: &mut Block, length: usize, revision: Revision, kind: u8) {
    let mut header = [0; RECORD_HEADER_BYTES];
    header[4..8].copy_from_slice(&(length as u32).to_le_bytes());
    header[8..16].copy_from_slice(&revision.get().to_le_bytes());
    header[16] = kind;
    block.put(&header);
}

fn op_bytes(op: &Op) -> usize {
    match op {
        Op::Put(put) => 1 + 4 + put.key.len() + 4 + 8 + 4 + put.stored_value().len(),
        Op::Delete { key } => 1 + 4 + key.len(),
    }
}

fn put_op(block: &mut Block, op: &Op) {
    match op {
        Op::Put(put) => {
            put_key(block, OP_PUT, &put.key);
            let mut fields = [0; 16];
            fields[..4].copy_from_slice(&put.stamp.unwrap_or(NO_STAMP).to_le_bytes());
            fields[4..12].copy_from_slice(&put.expires.unwrap_or(NO_EXPIRY).to_le_bytes());
            let value = put.stored_value();
            fields[12..].copy_from_slice(&(value.len() as u32).to_le_bytes());
            block.put(&fields);
            block.put(value);
        }
        Op::Delete { key } => put_key(block, OP_DELETE, key),
    }
}

fn put_key(block: &mut Block, tag: u8, key: &[u8]) {
    let mut start = [tag, 0, 0, 0, 0];
    start[1..].copy_from_slice(&(key.len() as u32).to_le_bytes());
    block.put(&start);
    block.put(key);
}

// === Reading ===

/// Parses the frame header at `offset`, if the bytes are one.
pub(crate) fn parse_header(seed: &Seed, offset: u64, bytes: &[u8]) -> Option<FrameHeader> {
    let bytes = bytes.get(..FRAME_HEADER_BYTES)?;
    let matches = u32_at(bytes, 0) == seed.sum(offset, &bytes[4..]);
    matches.then(|| FrameHeader {
        length: u32_at(bytes, 4),
        sequence: u64_at(bytes, 8),
        time: u64_at(bytes, 16),
        count: u32_at(bytes, 24),
    })
}

/// Parses the records of a frame; `bytes` starts right after its header, at `offset`.
pub(crate) fn parse_records(
    seed: &Seed,
    offset: u64,
    header: &FrameHeader,
    bytes: &[u8],
) -> Result<Vec<Entry>, Corruption> {
    let mut rest = bytes;
    let mut entries = Vec::with_capacity(header.count as usize);
    for _ in 0..header.count {
        let at = offset + (bytes.len() - rest.len()) as u64;
        let bad = |what| Corruption { offset: at, what };
        let record = take_record(&mut rest).ok_or(bad("a record is longer than its frame"))?;
        if u32_at(record, 0) != seed.sum(at, &record[4..]) {
            return Err(bad("the checksum of a record does not match"));
        }
        entries.push(parse_entry(record).ok_or(bad("a record does not parse"))?);
    }
    match rest.is_empty() {
        true => Ok(entries),
        false => Err(Corruption {
            offset,
            what: "a frame is longer than its records",
        }),
    }
}

fn take_record<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let length = rest.get(4..8).map(|bytes| u32_at(bytes, 0))?;
    rest.split_off(..RECORD_HEADER_BYTES + length as usize)
}

fn parse_entry(record: &[u8]) -> Option<Entry> {
    let revision = Revision::new(u64_at(record, 8));
    let mut payload = &record[RECORD_HEADER_BYTES..];
    let entry = match record[16] {
        KIND_COMMIT => Entry::Commit {
            revision,
            ops: parse_ops(&mut payload)?,
        },
        KIND_COMPACT => Entry::Compact {
            revision: Revision::new(take_u64(&mut payload)?),
        },
        _ => return None,
    };
    payload.is_empty().then_some(entry)
}

fn parse_ops(payload: &mut &[u8]) -> Option<Vec<Op>> {
    let count = take_u32(payload)?;
    (0..count).map(|_| parse_op(payload)).collect()
}

fn parse_op(payload: &mut &[u8]) -> Option<Op> {
    let tag = *payload.split_off_first()?;
    let key = take_bytes(payload)?;
    match tag {
        OP_PUT => {
            let stamp = Some(take_u32(payload)?).filter(|stamp| *stamp != NO_STAMP);
            let expires = Some(take_u64(payload)?).filter(|expires| *expires != NO_EXPIRY);
            let value = take_bytes(payload)?;
            let inside = stamp.is_none_or(|stamp| stamp as usize <= value.len());
            inside.then_some(Op::Put(Put {
                key,
                value,
                stamp,
                expires,
                ..Put::default()
            }))
        }
        OP_DELETE => Some(Op::Delete { key }),
        _ => None,
    }
}

// === Little-endian numbers and counted bytes, shared with the snapshot file format ===

pub(crate) fn take_u32(bytes: &mut &[u8]) -> Option<u32> {
    bytes.split_off(..4).map(|bytes| u32_at(bytes, 0))
}

pub(crate) fn take_u64(bytes: &mut &[u8]) -> Option<u64> {
    bytes.split_off(..8).map(|bytes| u64_at(bytes, 0))
}

/// Copies counted bytes into an allocation of exactly their size.
pub(crate) fn take_bytes(bytes: &mut &[u8]) -> Option<Bytes> {
    let length = take_u32(bytes)?;
    let bytes = bytes.split_off(..length as usize)?;
    Some(mmap_value::concat(&[bytes]))
}

pub(crate) fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let mut number = [0; 4];
    number.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(number)
}

pub(crate) fn u64_at(bytes: &[u8], at: usize) -> u64 {
    let mut number = [0; 8];
    number.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(number)
}
