//! How long a store of 100,000 keys takes to open, against reading and checking the same bytes.
//!
//! Both are done with the files in the page cache (where the work itself shows) and with the files dropped from it
//! (what a restarted machine sees), from the log alone and from a snapshot file as maintenance writes it.

use std::{
    fs::{self, File},
    io::{Read, Write},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use rustix::fs::{Advice, fadvise};

use super::{Setting, disk, subject};
use crate::{
    paired_rounds,
    report::{Goal, Measurement, Report},
};

/// A round here is short, so more of them are run.
const ROUNDS_FACTOR: usize = 3;

/// Whether the files are in the page cache when the clock starts.
#[derive(Debug, Clone, Copy)]
enum PageCache {
    Warm,
    Cold,
}

pub(crate) fn measure(setting: &Setting, report: &mut Report) -> Result<()> {
    let bare = setting.path("bare-entries");
    write_entries(&bare)?;
    let dir = setting.path("reopen");
    {
        let store = subject::open(&dir)?;
        subject::load(&store, subject::KEYS)?;
    }
    compare(setting, report, &bare, (&dir, "log"))?;
    {
        let store = subject::open(&dir)?;
        subject::block_on(store.maintain()).context("writing a snapshot file")?;
    }
    compare(setting, report, &bare, (&dir, "image"))
}

fn compare(setting: &Setting, report: &mut Report, bare: &Path, (dir, source): (&Path, &str)) -> Result<()> {
    for (cache, name) in [(PageCache::Warm, "warm"), (PageCache::Cold, "cold")] {
        let rounds = paired_rounds::run(
            setting.rounds * ROUNDS_FACTOR,
            || read_bare(bare, cache),
            || open_store(dir, cache),
        )?;
        let millis = |time: &Duration| time.as_secs_f64() * 1e3;
        report.add(
            Measurement::spread(
                "store",
                format!("reopen_{source}_{name}"),
                rounds.subject(millis),
                "ms",
            )
            .paired(rounds.baseline(millis), rounds.ratio(millis))
            .operations(subject::KEYS)
            .goal(Goal::RatioAtMost(5.0)),
        );
    }
    Ok(())
}

/// The entries a log of these keys has to hold, and nothing else.
fn write_entries(path: &Path) -> Result<()> {
    let mut file = std::io::BufWriter::new(File::create(path)?);
    for number in 0..subject::KEYS {
        let (key, value) = (subject::key(number), subject::value(number));
        file.write_all(&disk::frame(number, &key, &value))?;
        file.write_all(&key)?;
        file.write_all(&value)?;
    }
    file.into_inner()
        .context("writing the bare entries")?
        .sync_all()
        .context("syncing the bare entries")
}

/// Reads the file in large chunks and checksums each.
fn read_bare(path: &Path, cache: PageCache) -> Result<Duration> {
    prepare(&[path.to_owned()], cache)?;
    let start = Instant::now();
    let mut file = File::open(path)?;
    let mut chunk = vec![0; 1 << 20];
    let mut checksum = crc32fast::Hasher::new();
    let mut total = 0;
    loop {
        let length = file.read(&mut chunk)?;
        if length == 0 {
            break;
        }
        checksum.update(&chunk[..length]);
        total += length as u64;
    }
    std::hint::black_box(checksum.finalize());
    let elapsed = start.elapsed();
    let entry = disk::entry_bytes(subject::key(0).len(), subject::VALUE_BYTES) as u64;
    ensure!(total == subject::KEYS * entry, "the bare file has {total} bytes");
    Ok(elapsed)
}

fn open_store(dir: &Path, cache: PageCache) -> Result<Duration> {
    prepare(&files(dir)?, cache)?;
    let start = Instant::now();
    let store = subject::open(dir)?;
    let keys = store.metrics().index_keys;
    let elapsed = start.elapsed();
    ensure!(keys == subject::KEYS, "the reopened store has {keys} keys");
    Ok(elapsed)
}

fn prepare(files: &[PathBuf], cache: PageCache) -> Result<()> {
    for path in files {
        let mut file = File::open(path)?;
        match cache {
            PageCache::Warm => {
                std::io::copy(&mut file, &mut std::io::sink())?;
            }
            PageCache::Cold => {
                file.sync_all()?;
                fadvise(&file, 0, None, Advice::DontNeed)?;
            }
        }
    }
    Ok(())
}

fn files(dir: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            files.extend(self::files(&entry.path())?);
        } else {
            files.push(entry.path());
        }
    }
    Ok(files)
}
