//! A minimal log, the baseline of the store: a zero-filled file, one aligned durable write at a time.
//!
//! It opens its file the way the store's log does (`O_DIRECT | O_DSYNC`, whole 4096-byte blocks, never growing), so
//! that a difference between the two is the store's own work and not another way of writing.

use std::{
    fs::{File, OpenOptions},
    io::Write,
    os::unix::fs::{FileExt, OpenOptionsExt},
    path::Path,
};

use anyhow::{Context, Result};
use rustix::fs::OFlags;

/// The unit of direct writes.
pub(crate) const BLOCK_BYTES: usize = 4096;

/// As long as one of the store's segments.
const FILE_BYTES: u64 = 64 << 20;

/// Length, checksum, revision, kind of entry, and the key's length: about what any log needs beside key and value.
const HEADER_BYTES: usize = 32;

/// An open bare log.
#[derive(Debug)]
pub(crate) struct BareLog {
    file: File,
    direct: bool,
    /// Where the next batch goes; a multiple of the block size.
    position: u64,
    batch: AlignedBuffer,
    revision: u64,
}

/// Bytes whose start lies on a block boundary, as direct writes demand.
#[derive(Debug)]
struct AlignedBuffer {
    /// One block longer than requested, so that it has an aligned start.
    memory: Vec<u8>,
    start: usize,
    length: usize,
}

// === impl BareLog ===

impl BareLog {
    /// Makes the file, fills it with zeros and syncs it.
    pub(crate) fn create(path: &Path) -> Result<Self> {
        fill_with_zeros(path).with_context(|| format!("preparing {}", path.display()))?;
        let (file, direct) = open_durable(path).with_context(|| format!("opening {}", path.display()))?;
        Ok(Self {
            file,
            direct,
            position: 0,
            batch: AlignedBuffer::new(1 << 20),
            revision: 0,
        })
    }

    /// Whether writes bypass the page cache, as the store's do where the file system allows it.
    pub(crate) fn is_direct(&self) -> bool {
        self.direct
    }

    /// Adds one entry to the batch that the next [`BareLog::commit`] makes durable.
    pub(crate) fn push(&mut self, key: &[u8], value: &[u8]) {
        self.revision += 1;
        let frame = frame(self.revision, key, value);
        self.batch.extend(&frame);
        self.batch.extend(key);
        self.batch.extend(value);
    }

    /// Writes the batch, padded to whole blocks, and returns once it is on the disk.
    pub(crate) fn commit(&mut self) -> Result<()> {
        let batch = self.batch.padded();
        if self.position + batch.len() as u64 > FILE_BYTES {
            self.position = 0;
        }
        self.file
            .write_all_at(batch, self.position)
            .context("appending to the bare log")?;
        self.position += batch.len() as u64;
        self.batch.clear();
        Ok(())
    }
}

/// Bytes that one entry takes before padding.
pub(crate) fn entry_bytes(key: usize, value: usize) -> usize {
    HEADER_BYTES + key + value
}

/// The entry's header, with a checksum over key and value: an append that cannot be checked is not a log.
pub(crate) fn frame(revision: u64, key: &[u8], value: &[u8]) -> [u8; HEADER_BYTES] {
    let mut checksum = crc32fast::Hasher::new();
    checksum.update(&revision.to_le_bytes());
    checksum.update(key);
    checksum.update(value);
    let mut frame = [0; HEADER_BYTES];
    frame[0..4].copy_from_slice(&(value.len() as u32).to_le_bytes());
    frame[4..8].copy_from_slice(&checksum.finalize().to_le_bytes());
    frame[8..16].copy_from_slice(&revision.to_le_bytes());
    frame[16..20].copy_from_slice(&(key.len() as u32).to_le_bytes());
    frame
}

fn fill_with_zeros(path: &Path) -> std::io::Result<()> {
    let mut file = File::create(path)?;
    let zeros = vec![0; 1 << 20];
    for _ in 0..FILE_BYTES / zeros.len() as u64 {
        file.write_all(&zeros)?;
    }
    file.sync_all()
}

/// Some file systems do not support direct writes; the store has the same fallback.
fn open_durable(path: &Path) -> std::io::Result<(File, bool)> {
    let open = |flags: OFlags| {
        OpenOptions::new()
            .write(true)
            .custom_flags(flags.bits() as i32)
            .open(path)
    };
    match open(OFlags::DIRECT | OFlags::DSYNC) {
        Ok(file) => Ok((file, true)),
        Err(_) => Ok((open(OFlags::DSYNC)?, false)),
    }
}

// === impl AlignedBuffer ===

impl AlignedBuffer {
    fn new(capacity: usize) -> Self {
        let memory = vec![0; capacity.next_multiple_of(BLOCK_BYTES) + BLOCK_BYTES];
        let start = memory.as_ptr().align_offset(BLOCK_BYTES);
        Self {
            memory,
            start,
            length: 0,
        }
    }

    fn extend(&mut self, bytes: &[u8]) {
        if self.start + self.length + bytes.len() + BLOCK_BYTES > self.memory.len() {
            self.grow(bytes.len());
        }
        let end = self.start + self.length;
        self.memory[end..end + bytes.len()].copy_from_slice(bytes);
        self.length += bytes.len();
    }

    fn grow(&mut self, more: usize) {
        let mut larger = Self::new((self.length + more + BLOCK_BYTES) * 2);
        larger.memory[larger.start..larger.start + self.length]
            .copy_from_slice(&self.memory[self.start..self.start + self.length]);
        larger.length = self.length;
        *self = larger;
    }

    /// Whole blocks, the rest of the last one zero.
    fn padded(&mut self) -> &[u8] {
        let whole = self.length.next_multiple_of(BLOCK_BYTES);
        self.memory[self.start + self.length..self.start + whole].fill(0);
        &self.memory[self.start..self.start + whole]
    }

    fn clear(&mut self) {
        self.length = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_padded(pieces: &[usize], expected: usize) {
        let mut buffer = AlignedBuffer::new(BLOCK_BYTES);
        for (index, piece) in pieces.iter().enumerate() {
            buffer.extend(&vec![index as u8 + 1; *piece]);
        }
        let total: usize = pieces.iter().sum();
        let padded = buffer.padded();
        assert_eq!(padded.len(), expected);
        assert_eq!(
            padded.as_ptr().align_offset(BLOCK_BYTES),
            0,
            "the batch starts on a block"
        );
        assert!(
            padded[total..].iter().all(|byte| *byte == 0),
            "the padding is zero"
        );
        assert!(
            padded[..total].iter().all(|byte| *byte != 0),
            "nothing pushed is lost"
        );
    }

    #[test]
    fn a_batch_is_padded_to_whole_blocks() {
        check_padded(&[1], 4096);
        check_padded(&[4096], 4096);
        check_padded(&[4000, 97], 8192);
    }

    #[test]
    fn a_batch_larger_than_the_buffer_stays_aligned_and_whole() {
        check_padded(&[10_000, 50_000, 1], 61_440);
    }

    #[test]
    fn an_appended_entry_is_in_the_file_behind_its_header() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        let mut log = BareLog::create(&path).unwrap();
        log.push(b"key", b"value");
        log.commit().unwrap();
        let bytes = std::fs::read(&path).unwrap();
        assert_eq!(&bytes[HEADER_BYTES..entry_bytes(3, 5)], b"keyvalue");
        assert_eq!(bytes[..HEADER_BYTES], frame(1, b"key", b"value"));
    }
}
