//! File system interface: every change that the engine makes on disk goes through it, so that a test can inject
//! faults. Reads use the standard library.

use std::{
    fmt::Debug,
    fs::{self, File, OpenOptions},
    io,
    os::unix::fs::{FileExt, OpenOptionsExt},
    path::Path,
};

use rustix::{
    fs::{FallocateFlags, OFlags},
    io::Errno,
};

use crate::private_dir::{FILE_MODE, restrict_open_file};

/// The file system operations that the engine uses.
pub(crate) trait Disk: Debug + Send + Sync {
    /// Opens a file for writing.
    fn open(&self, path: &Path, mode: Mode) -> io::Result<Box<dyn DiskFile>>;
    /// Renames a file, replacing the target.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a file.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// The bytes that are free for this process on the file system of `dir`.
    fn free_bytes(&self, dir: &Path) -> io::Result<u64>;
    /// Makes creations, renames and removals in `dir` durable.
    fn sync_dir(&self, dir: &Path) -> io::Result<()>;
}

/// A file open for writing.
pub(crate) trait DiskFile: Debug + Send {
    /// Writes at an offset and returns the number of bytes written. In [`Mode::Durable`] they are on the medium
    /// when it returns. There and in [`Mode::Fill`] offset, length and address are multiples of the block
    /// size.
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<usize>;
    /// Reserves space for the first `size` bytes, where the file system can. Fails only if there is no space.
    fn allocate(&self, size: u64) -> io::Result<()>;
    /// Returns once everything written is on the medium.
    fn sync(&self) -> io::Result<()>;
}

/// How a file is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// A new, empty file, written through the page cache.
    New,
    /// A new, empty file, written in whole blocks, bypassing the page cache if possible.
    Fill,
    /// An existing file, written through the page cache.
    Cached,
    /// An existing file; each write is durable when it returns, and bypasses the page cache if possible.
    Durable,
}

/// The operating system's file system.
#[derive(Debug)]
pub(crate) struct RealDisk;

#[derive(Debug)]
struct RealFile(File);

impl Disk for RealDisk {
    fn open(&self, path: &Path, mode: Mode) -> io::Result<Box<dyn DiskFile>> {
        let file = match mode {
            Mode::New => create(path, OFlags::empty())?,
            Mode::Fill => fall_back(|direct| create(path, direct))?,
            Mode::Cached => OpenOptions::new().write(true).open(path)?,
            Mode::Durable => fall_back(|direct| open_existing(path, direct | OFlags::DSYNC))?,
        };
        Ok(Box::new(RealFile(file)))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn free_bytes(&self, dir: &Path) -> io::Result<u64> {
        let space = rustix::fs::statvfs(dir)?;
        Ok(space.f_bavail.saturating_mul(space.f_frsize))
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        File::open(dir)?.sync_all()
    }
}

impl DiskFile for RealFile {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<usize> {
        self.0.write_at(bytes, offset)
    }

    fn allocate(&self, size: u64) -> io::Result<()> {
        match rustix::fs::fallocate(&self.0, FallocateFlags::empty(), 0, size) {
            Err(error @ (Errno::NOSPC | Errno::DQUOT | Errno::FBIG)) => Err(error.into()),
            _ => Ok(()),
        }
    }

    fn sync(&self) -> io::Result<()> {
        self.0.sync_all()
    }
}

/// Writes all of `bytes`. After a short write the rest is tried once, to learn the reason: a disk that becomes full
/// writes what it can first. A second short write is an error.
pub(crate) fn write_whole(file: &dyn DiskFile, offset: u64, bytes: &[u8]) -> io::Result<()> {
    let mut written = file.write_at(offset, bytes)?;
    if written < bytes.len() {
        written += file.write_at(offset + written as u64, &bytes[written..])?;
    }
    if written == bytes.len() {
        return Ok(());
    }
    let message = format!("only {written} of {} bytes were written", bytes.len());
    Err(io::Error::new(io::ErrorKind::WriteZero, message))
}

/// Creates a file that only its owner may use. An unfinished file of that name is replaced, never followed or reused:
/// its owner and mode could be others.
fn create(path: &Path, flags: OFlags) -> io::Result<File> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(FILE_MODE);
    let file = options.custom_flags(flags.bits() as i32).open(path)?;
    restrict_open_file(&file)?;
    Ok(file)
}

fn open_existing(path: &Path, flags: OFlags) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).custom_flags(flags.bits() as i32).open(path)
}

/// Opens with `O_DIRECT`; where the file system does not support it, without, so that writes go through the page cache.
fn fall_back(open: impl Fn(OFlags) -> io::Result<File>) -> io::Result<File> {
    match open(OFlags::DIRECT) {
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => open(OFlags::empty()),
        opened => opened,
    }
}
