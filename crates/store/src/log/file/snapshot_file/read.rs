//! Reading of snapshot files: blocks are read one after the other, and checked and decoded in parallel.

use std::{fs::File, io::Read, path::Path, sync::Arc, thread};

use parking_lot::Mutex;
use rustix::fs::{Advice, fadvise};

use crate::{
    Attachment, Error, Record, Revision, SealId,
    index::Index,
    log::file::{
        frame::{take_bytes, take_u64, u32_at, u64_at},
        snapshot_file::{BLOCK_BYTES, BLOCK_HEADER_BYTES, FOOTER, HEADER_BYTES, MAGIC, NO_EXPIRY},
    },
};

const ADVICE: &str = "nothing was changed; restore from another backup";

/// Reads and checks the whole snapshot file at `path`.
pub(crate) fn read(path: &Path) -> Result<(Index, Revision), Error> {
    let file = File::open(path).map_err(Error::io("open", path))?;
    // Only advice: a file system that does not take it reads as well, and later.
    fadvise(&file, 0, None, Advice::Sequential).ok();
    let mut reader = Reader {
        file,
        path,
        offset: 0,
        blocks: 0,
        ended: false,
    };
    let revision = reader.header()?;
    let blocks = decode_all(reader)?;
    Ok((Index::of_sorted(join(path, blocks, revision)?), revision))
}

/// More threads than this only wait for the reading one.
const MAX_THREADS: usize = 4;

/// Reader of the blocks of a snapshot file.
#[derive(Debug)]
struct Reader<'a> {
    file: File,
    path: &'a Path,
    /// Offset of the current header or block.
    offset: u64,
    blocks: u64,
    /// The footer or the end of the file was reached.
    ended: bool,
}

/// A block as it was read, not yet checked.
#[derive(Debug, Default)]
struct RawBlock {
    position: u64,
    offset: u64,
    header: [u8; BLOCK_HEADER_BYTES],
    payload: Vec<u8>,
}

/// Decoded contents of a block.
#[derive(Debug)]
enum Block {
    Records(Vec<Arc<Record>>),
    Footer { keys: u64, revision: u64, is_last: bool },
}

/// Offset of a block, and its contents or error.
type DecodedBlock = (u64, Result<Block, Error>);

impl Reader<'_> {
    fn header(&mut self) -> Result<Revision, Error> {
        let mut header = Vec::new();
        self.take(HEADER_BYTES, &mut header)?;
        let whole = header.len() == HEADER_BYTES
            && header.starts_with(MAGIC)
            && u32_at(&header, 16) == crc32fast::hash(&header[..16]);
        if !whole {
            return Err(damaged(
                self.path,
                0,
                "the header of the snapshot file is not valid",
            ));
        }
        self.offset += HEADER_BYTES as u64;
        Ok(Revision::new(u64_at(&header, 8)))
    }

    /// Reads the next block into `raw`; false after the footer and at the end of the file.
    fn next(&mut self, raw: &mut RawBlock) -> Result<bool, Error> {
        if self.ended {
            return Ok(false);
        }
        raw.payload.clear();
        self.take(BLOCK_HEADER_BYTES, &mut raw.payload)?;
        let Ok(header) = raw.payload[..].try_into() else {
            self.ended = true;
            return Ok(false);
        };
        (raw.header, raw.position, raw.offset) = (header, self.blocks, self.offset);
        raw.payload.clear();
        self.take(raw.length(), &mut raw.payload)?;
        self.ended = raw.count() == FOOTER;
        self.blocks += 1;
        self.offset += (BLOCK_HEADER_BYTES + raw.payload.len()) as u64;
        Ok(true)
    }

    /// Reads `length` bytes, or as many as there are. A corrupt length must not allocate all memory.
    fn take(&mut self, length: usize, bytes: &mut Vec<u8>) -> Result<(), Error> {
        bytes.reserve(length.min(2 * BLOCK_BYTES));
        let mut limited = (&self.file).take(length as u64);
        limited.read_to_end(bytes).map_err(Error::io("read", self.path))?;
        Ok(())
    }

    /// Whether the file ends here.
    fn is_at_end(&mut self) -> Result<bool, Error> {
        let mut bytes = Vec::new();
        self.take(1, &mut bytes)?;
        Ok(bytes.is_empty())
    }
}

impl RawBlock {
    fn length(&self) -> usize {
        u32_at(&self.header, 4) as usize
    }

    fn count(&self) -> u32 {
        u32_at(&self.header, 8)
    }

    fn decode(&self, path: &Path, is_last: bool) -> Result<Block, Error> {
        let mut hasher = crc32fast::Hasher::new();
        hasher.update(&self.position.to_le_bytes());
        hasher.update(&self.header[4..]);
        hasher.update(&self.payload);
        let what = if self.payload.len() < self.length() || hasher.finalize() != u32_at(&self.header, 0) {
            "the checksum of a block does not match"
        } else {
            match self.parse(is_last) {
                Ok(block) => return Ok(block),
                Err(what) => what,
            }
        };
        Err(damaged(path, self.offset, what))
    }

    fn parse(&self, is_last: bool) -> Result<Block, &'static str> {
        let mut rest = &self.payload[..];
        if self.count() == FOOTER {
            let numbers = (take_u64(&mut rest), take_u64(&mut rest));
            let (Some(keys), Some(revision)) = numbers else {
                return Err("the footer does not parse");
            };
            return Ok(Block::Footer {
                keys,
                revision,
                is_last,
            });
        }
        let mut records: Vec<Arc<Record>> = Vec::new();
        for _ in 0..self.count() {
            let record = decode(&mut rest).ok_or("a record does not parse")?;
            if records.last().is_some_and(|last| last.key >= record.key) {
                return Err("keys are out of order");
            }
            records.push(Arc::new(record));
        }
        match rest.is_empty() {
            true => Ok(Block::Records(records)),
            false => Err("a block is longer than its records"),
        }
    }
}

/// Reads all blocks; each thread reads the next one and decodes it while another thread reads.
fn decode_all(reader: Reader<'_>) -> Result<Vec<DecodedBlock>, Error> {
    let path = reader.path;
    let reader = Mutex::new(reader);
    let work = || -> Result<Vec<DecodedBlock>, Error> {
        let (mut raw, mut decoded) = (RawBlock::default(), Vec::new());
        loop {
            let mut reading = reader.lock();
            if !reading.next(&mut raw)? {
                return Ok(decoded);
            }
            let is_last = reading.ended && reading.is_at_end()?;
            drop(reading);
            decoded.push((raw.offset, raw.decode(path, is_last)));
        }
    };
    let threads = thread::available_parallelism().map_or(1, |threads| threads.get().min(MAX_THREADS));
    thread::scope(|scope| {
        let threads: Vec<_> = (1..threads).map(|_| scope.spawn(work)).collect();
        let mut all = work()?;
        for thread in threads {
            all.extend(thread.join().expect("decoding returns its errors")?);
        }
        all.sort_by_key(|(offset, _)| *offset);
        Ok(all)
    })
}

/// Joins the records in the order of the blocks and checks the footer. Returns the first damage as the error.
fn join(path: &Path, blocks: Vec<DecodedBlock>, expected: Revision) -> Result<Vec<Arc<Record>>, Error> {
    let mut all: Vec<Arc<Record>> = Vec::new();
    for (offset, block) in blocks {
        match block? {
            Block::Records(records) => {
                if let (Some(last), Some(first)) = (all.last(), records.first())
                    && last.key >= first.key
                {
                    return Err(damaged(path, offset, "keys are out of order"));
                }
                all.extend(records);
            }
            Block::Footer {
                keys,
                revision,
                is_last,
            } => {
                return match is_last && keys == all.len() as u64 && revision == expected.get() {
                    true => Ok(all),
                    false => Err(damaged(
                        path,
                        offset,
                        "the footer does not match the snapshot file",
                    )),
                };
            }
        }
    }
    Err(damaged(path, 0, "the snapshot file ends without its footer"))
}

fn decode(rest: &mut &[u8]) -> Option<Record> {
    Some(Record {
        created: Revision::new(take_u64(rest)?),
        modified: Revision::new(take_u64(rest)?),
        version: take_u64(rest)?,
        expires: Some(take_u64(rest)?).filter(|expires| *expires != NO_EXPIRY),
        key: take_bytes(rest)?,
        value: take_bytes(rest)?,
        attachment: Attachment::default(),
        seal: SealId::NONE,
    })
}

fn damaged(path: &Path, offset: u64, what: &str) -> Error {
    Error::Corrupt {
        file: path.to_owned(),
        offset,
        what: what.to_owned(),
        advice: ADVICE,
    }
}
