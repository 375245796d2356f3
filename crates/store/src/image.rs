//! Images: the whole map of one revision in one sorted file. A store's own images and its backups are the
//! same format; `docs/store.md` has the tables.
//!
//! An image is written under another name, made durable, and then renamed, so a file that has its name is
//! complete unless the medium fails.

use std::{
    fs::File,
    io::{BufReader, Read},
    path::Path,
    sync::{
        Arc,
        mpsc::{SyncSender, sync_channel},
    },
};

use crate::{
    Error, Record, Revision, Snapshot,
    index::Index,
    log::file::{
        disk::{Disk, DiskFile, Mode, write_whole},
        frame::{take_bytes, take_u64, u32_at, u64_at},
        layout,
    },
    workers::Stop,
};

/// What an image holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackupReport {
    /// The one revision it shows.
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

/// The file is made durable in portions, so that the log on the same disk gets its turn.
const SYNC_BYTES: u64 = 4 << 20;

/// The count that marks the footer.
const FOOTER: u32 = u32::MAX;

const NO_EXPIRY: u64 = u64::MAX;

const ADVICE: &str = "nothing was changed; restore from another backup";

/// A file that grows block by block.
#[derive(Debug)]
struct Writer<'a> {
    file: Box<dyn DiskFile>,
    path: &'a Path,
    offset: u64,
    synced: u64,
    blocks: u64,
}

// === Writing ===

/// Writes `snapshot` to `path` and makes it durable.
pub(crate) fn write(
    disk: &dyn Disk,
    path: &Path,
    snapshot: &Snapshot,
    stop: &Stop,
) -> Result<BackupReport, Error> {
    let unfinished = layout::unfinished(path);
    let file = disk
        .open(&unfinished, Mode::New)
        .map_err(Error::io("create", &unfinished))?;
    let mut writer = Writer {
        file,
        path: &unfinished,
        offset: 0,
        synced: 0,
        blocks: 0,
    };
    writer.header(snapshot.revision())?;
    writer.records(snapshot, stop)?;
    writer.footer(snapshot)?;
    writer.sync()?;
    let bytes = writer.offset;
    disk.rename(&unfinished, path)
        .map_err(Error::io("rename", &unfinished))?;
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty());
    let dir = dir.unwrap_or(Path::new("."));
    disk.sync_dir(dir).map_err(Error::io("sync", dir))?;
    Ok(BackupReport {
        revision: snapshot.revision(),
        keys: snapshot.len() as u64,
        bytes,
    })
}

impl Writer<'_> {
    fn header(&mut self, revision: Revision) -> Result<(), Error> {
        let mut header = Vec::with_capacity(HEADER_BYTES);
        header.extend_from_slice(MAGIC);
        header.extend_from_slice(&revision.get().to_le_bytes());
        header.extend_from_slice(&crc32fast::hash(&header).to_le_bytes());
        self.put(&header)
    }

    fn records(&mut self, snapshot: &Snapshot, stop: &Stop) -> Result<(), Error> {
        let mut block = start_block();
        let mut count = 0;
        for record in snapshot.records() {
            encode(&mut block, record);
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

fn encode(block: &mut Vec<u8>, record: &Record) {
    for number in [record.created.get(), record.modified.get(), record.version] {
        block.extend_from_slice(&number.to_le_bytes());
    }
    block.extend_from_slice(&record.expires.unwrap_or(NO_EXPIRY).to_le_bytes());
    for bytes in [&record.key, &record.value] {
        block.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
        block.extend_from_slice(bytes);
    }
}

// === Reading ===

/// Reads and checks the whole image at `path`. One thread reads and decodes while this one builds the index.
pub(crate) fn read(path: &Path) -> Result<(Index, Revision), Error> {
    let file = File::open(path).map_err(Error::io("open", path))?;
    let mut reader = Reader {
        file: BufReader::with_capacity(1 << 20, file),
        path,
        offset: 0,
        blocks: 0,
        records: 0,
        last: None,
    };
    let revision = reader.header()?;
    let (decoded, blocks) = sync_channel(BLOCKS_AHEAD);
    std::thread::scope(|scope| {
        let reading = scope.spawn(move || reader.run(revision, &decoded));
        let mut index = Index::default();
        for record in blocks.into_iter().flatten() {
            index.put(&record.key, |_| record.clone());
        }
        reading.join().expect("reading an image returns its errors")?;
        Ok((index, revision))
    })
}

/// How many decoded blocks may wait to be taken into the index.
const BLOCKS_AHEAD: usize = 8;

#[derive(Debug)]
struct Reader<'a> {
    file: BufReader<File>,
    path: &'a Path,
    /// Where the part at hand starts.
    offset: u64,
    blocks: u64,
    records: u64,
    last: Option<Arc<Record>>,
}

impl Reader<'_> {
    /// Hands on the records of one block after the other, up to the footer.
    fn run(&mut self, revision: Revision, decoded: &SyncSender<Vec<Arc<Record>>>) -> Result<(), Error> {
        while let Some((count, block)) = self.block()? {
            if count == FOOTER {
                return self.footer(&block, revision);
            }
            let records = self.records(count, &block)?;
            decoded.send(records).expect("the index is built to the end");
        }
        Err(self.damaged("the image ends without its footer"))
    }

    fn header(&mut self) -> Result<Revision, Error> {
        let header = self.take(HEADER_BYTES)?;
        let whole = header.len() == HEADER_BYTES
            && header.starts_with(MAGIC)
            && u32_at(&header, 16) == crc32fast::hash(&header[..16]);
        if !whole {
            return Err(self.damaged("the image's header is not valid"));
        }
        self.offset += HEADER_BYTES as u64;
        Ok(Revision::new(u64_at(&header, 8)))
    }

    /// The next block and its count; none at the end of the file.
    fn block(&mut self) -> Result<Option<(u32, Vec<u8>)>, Error> {
        let header = self.take(BLOCK_HEADER_BYTES)?;
        if header.len() < BLOCK_HEADER_BYTES {
            return Ok(None);
        }
        let length = u32_at(&header, 4) as usize;
        let payload = self.take(length)?;
        let mut hasher = crc32fast::Hasher::new();
        hasher.update(&self.blocks.to_le_bytes());
        hasher.update(&header[4..]);
        hasher.update(&payload);
        if payload.len() < length || hasher.finalize() != u32_at(&header, 0) {
            return Err(self.damaged("the checksum of a block does not match"));
        }
        self.blocks += 1;
        self.offset += (BLOCK_HEADER_BYTES + length) as u64;
        Ok(Some((u32_at(&header, 8), payload)))
    }

    fn records(&mut self, count: u32, block: &[u8]) -> Result<Vec<Arc<Record>>, Error> {
        let mut rest = block;
        let mut records = Vec::new();
        for _ in 0..count {
            let record = decode(&mut rest).ok_or_else(|| self.damaged("a record does not parse"))?;
            if self.last.as_ref().is_some_and(|last| last.key >= record.key) {
                return Err(self.damaged("keys are out of order"));
            }
            let record = Arc::new(record);
            self.last = Some(record.clone());
            records.push(record);
        }
        self.records += u64::from(count);
        match rest.is_empty() {
            true => Ok(records),
            false => Err(self.damaged("a block is longer than its records")),
        }
    }

    fn footer(&mut self, footer: &[u8], revision: Revision) -> Result<(), Error> {
        let mut rest = footer;
        let count = take_u64(&mut rest);
        let agrees = count == Some(self.records)
            && take_u64(&mut rest) == Some(revision.get())
            && self.take(1)?.is_empty();
        match agrees {
            true => Ok(()),
            false => Err(self.damaged("the footer does not agree with the image")),
        }
    }

    /// The next bytes, or as many as there are. A length that is damaged must not take all memory.
    fn take(&mut self, length: usize) -> Result<Vec<u8>, Error> {
        let mut bytes = Vec::with_capacity(length.min(2 * BLOCK_BYTES));
        let mut part = self.file.by_ref().take(length as u64);
        part.read_to_end(&mut bytes)
            .map_err(Error::io("read", self.path))?;
        Ok(bytes)
    }

    fn damaged(&self, what: &str) -> Error {
        Error::Corrupt {
            file: self.path.to_owned(),
            offset: self.offset,
            what: what.to_owned(),
            advice: ADVICE,
        }
    }
}

fn decode(rest: &mut &[u8]) -> Option<Record> {
    Some(Record {
        created: Revision::new(take_u64(rest)?),
        modified: Revision::new(take_u64(rest)?),
        version: take_u64(rest)?,
        expires: Some(take_u64(rest)?).filter(|expires| *expires != NO_EXPIRY),
        key: take_bytes(rest)?,
        value: take_bytes(rest)?,
    })
}
