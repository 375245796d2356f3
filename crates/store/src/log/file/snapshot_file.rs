//! Snapshot files: the whole map of one revision in one sorted file. A store's own snapshot files
//! (`image-<revision>.img`) and its backups have the same format; `docs/store.md` has the tables.
//!
//! A snapshot file is written under a temporary name, made durable, and then renamed, so a file with the final name
//! is complete unless the medium fails.

mod read;

pub(crate) use read::read;

use std::collections::HashMap;
use std::path::Path;

use bytes::Bytes;

use crate::{
    Error, Record, Revision, SealId, Snapshot, ValueTransformer,
    log::file::{
        disk::{Disk, DiskFile, Mode, write_whole},
        layout,
    },
    workers::StopFlag,
};

/// Contents of a backup or snapshot file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackupReport {
    /// The revision of the map.
    pub revision: Revision,
    /// The number of keys.
    pub keys: u64,
    /// The size of the file.
    pub bytes: u64,
}

const MAGIC: &[u8; 8] = b"SETIMG\0\x01";
const HEADER_BYTES: usize = 20;
const BLOCK_HEADER_BYTES: usize = 12;

/// A block is closed once it holds this many bytes.
const BLOCK_BYTES: usize = 256 << 10;

/// The file is synced in portions of this size, so that a log on the same disk is not blocked for long.
const SYNC_BYTES: u64 = 4 << 20;

/// Bytes of a record besides its key and value.
const RECORD_BYTES: u64 = 40;

/// The count that marks the footer.
const FOOTER: u32 = u32::MAX;

const NO_EXPIRY: u64 = u64::MAX;

/// The map that is written, and what seals its values.
#[derive(Debug)]
pub(crate) struct Source<'a> {
    pub(crate) snapshot: &'a Snapshot,
    pub(crate) transformer: Option<&'a dyn ValueTransformer>,
}

/// The keys whose values a snapshot file has sealed otherwise than their records report, with the version and the seal.
pub(crate) type ResealedKeys = HashMap<Bytes, (Revision, SealId)>;

/// Snapshot file under construction.
#[derive(Debug)]
struct Writer<'a> {
    file: Box<dyn DiskFile>,
    path: &'a Path,
    offset: u64,
    synced: u64,
    blocks: u64,
    resealed: ResealedKeys,
}

/// Writes the snapshot of `source` to `path` and makes it durable.
pub(crate) fn write(
    disk: &dyn Disk,
    path: &Path,
    source: &Source<'_>,
    stop: &StopFlag,
) -> Result<(BackupReport, ResealedKeys), Error> {
    let snapshot = source.snapshot;
    let unfinished = layout::unfinished(path);
    let written = write_unfinished(disk, &unfinished, source, stop);
    let written = written.and_then(|bytes| {
        let renamed = disk.rename(&unfinished, path);
        renamed.map_err(Error::io("rename", &unfinished)).map(|()| bytes)
    });
    if written.is_err() {
        // On a full disk the space is needed; a file that cannot be removed now is removed at the next start.
        disk.remove(&unfinished).ok();
    }
    let (bytes, resealed) = written?;
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty());
    let dir = dir.unwrap_or(Path::new("."));
    disk.sync_dir(dir).map_err(Error::io("sync", dir))?;
    let report = BackupReport {
        revision: snapshot.revision(),
        keys: snapshot.len() as u64,
        bytes,
    };
    Ok((report, resealed))
}

/// Writes all of the file and makes it durable. Returns its size, too.
fn write_unfinished(
    disk: &dyn Disk,
    path: &Path,
    source: &Source<'_>,
    stop: &StopFlag,
) -> Result<(u64, ResealedKeys), Error> {
    let snapshot = source.snapshot;
    let file = disk.open(path, Mode::New).map_err(Error::io("create", path))?;
    let mut writer = Writer {
        file,
        path,
        offset: 0,
        synced: 0,
        blocks: 0,
        resealed: ResealedKeys::new(),
    };
    writer.header(snapshot.revision())?;
    writer.records(source, stop)?;
    writer.footer(snapshot)?;
    writer.sync()?;
    Ok((writer.offset, writer.resealed))
}

/// Upper bound of the size of a snapshot file of `keys` records with `bytes` of keys and values.
pub(crate) fn size_bound(keys: u64, bytes: u64) -> u64 {
    bytes + keys * RECORD_BYTES + bytes / 64 + BLOCK_BYTES as u64
}

impl Writer<'_> {
    fn header(&mut self, revision: Revision) -> Result<(), Error> {
        let mut header = Vec::with_capacity(HEADER_BYTES);
        header.extend_from_slice(MAGIC);
        header.extend_from_slice(&revision.get().to_le_bytes());
        header.extend_from_slice(&crc32fast::hash(&header).to_le_bytes());
        self.put(&header)
    }

    fn records(&mut self, source: &Source<'_>, stop: &StopFlag) -> Result<(), Error> {
        let mut block = start_block();
        let mut count = 0;
        for record in source.snapshot.records() {
            let seal = encode(&mut block, record, source.transformer)?;
            if seal != record.seal {
                self.resealed.insert(record.key.clone(), (record.modified, seal));
            }
            count += 1;
            if block.len() >= BLOCK_BYTES {
                if stop.is_set() {
                    return Err(Error::Closed);
                }
                self.block(&mut block, count)?;
                count = 0;
            }
        }
        match count {
            0 => Ok(()),
            count => self.block(&mut block, count),
        }
    }

    fn footer(&mut self, snapshot: &Snapshot) -> Result<(), Error> {
        let mut block = start_block();
        block.extend_from_slice(&(snapshot.len() as u64).to_le_bytes());
        block.extend_from_slice(&snapshot.revision().get().to_le_bytes());
        self.block(&mut block, FOOTER)
    }

    /// Completes the header of `block`, writes it, and empties it for the next one.
    fn block(&mut self, block: &mut Vec<u8>, count: u32) -> Result<(), Error> {
        let length = (block.len() - BLOCK_HEADER_BYTES) as u32;
        block[4..8].copy_from_slice(&length.to_le_bytes());
        block[8..12].copy_from_slice(&count.to_le_bytes());
        let sum = checksum(self.blocks, &block[4..]);
        block[..4].copy_from_slice(&sum.to_le_bytes());
        self.put(block)?;
        self.blocks += 1;
        block.truncate(BLOCK_HEADER_BYTES);
        if self.offset - self.synced >= SYNC_BYTES {
            self.sync()?;
        }
        Ok(())
    }

    fn put(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let written = write_whole(&*self.file, self.offset, bytes);
        written.map_err(Error::io("write", self.path))?;
        self.offset += bytes.len() as u64;
        Ok(())
    }

    fn sync(&mut self) -> Result<(), Error> {
        self.synced = self.offset;
        self.file.sync().map_err(Error::io("sync", self.path))
    }
}

fn start_block() -> Vec<u8> {
    let mut block = Vec::with_capacity(BLOCK_BYTES + BLOCK_BYTES / 4);
    block.resize(BLOCK_HEADER_BYTES, 0);
    block
}

fn checksum(position: u64, bytes: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&position.to_le_bytes());
    hasher.update(bytes);
    hasher.finalize()
}

/// Appends a record to a block. Returns what sealed its value.
fn encode(
    block: &mut Vec<u8>,
    record: &Record,
    transformer: Option<&dyn ValueTransformer>,
) -> Result<SealId, Error> {
    let sealed = match transformer {
        Some(transformer) => transformer.seal(&record.key, &record.key, &record.value)?,
        None => None,
    };
    for number in [record.created.get(), record.modified.get(), record.version] {
        block.extend_from_slice(&number.to_le_bytes());
    }
    block.extend_from_slice(&record.expires.unwrap_or(NO_EXPIRY).to_le_bytes());
    let value = sealed.as_ref().map_or(&record.value, |sealed| &sealed.bytes);
    for bytes in [&record.key, value] {
        block.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
        block.extend_from_slice(bytes);
    }
    Ok(sealed.map(|sealed| sealed.seal).unwrap_or_default())
}
