//! `setpoint store copy`: copies the objects of a store between a data directory, a backup file and etcd, and compares
//! the copy with the original.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use setpoint_api::{Clock, SystemClock};
use setpoint_encryption::Encryption;
use setpoint_etcd::{EtcdConfig, TlsFiles};
use setpoint_registry::{EtcdLayout, etcd_layout};
use setpoint_store::{Compare, Config, Op, Record, Snapshot, Store, Txn, open_private_dir};
use tokio::task::JoinSet;

use super::store_dir;

/// The prefix of the keys of objects.
const OBJECTS: &[u8] = b"/registry/";

/// Writes to etcd that are under way at once.
const WRITES_IN_FLIGHT: usize = 64;

/// After how many objects the progress is printed.
const PROGRESS_OBJECTS: usize = 1000;

/// The arguments of `setpoint store copy`.
#[derive(Debug, clap::Args)]
pub struct Copy {
    /// What to copy: a data directory that is not in use, a backup file, or the URLs of etcd's servers, comma separated.
    pub from: String,
    /// Where to copy it: a data directory, a backup file (with --to-backup), or the URLs of etcd's servers. No object may
    /// be there yet.
    pub to: String,
    /// Write a backup file instead of a data directory.
    #[arg(long)]
    pub to_backup: bool,
    /// The prefix of the keys in etcd.
    #[arg(long, value_name = "PREFIX", default_value = etcd_layout::DEFAULT_PREFIX)]
    pub etcd_prefix: String,
    /// The certificate authorities of etcd's servers.
    #[arg(long, value_name = "FILE")]
    pub etcd_cafile: Option<PathBuf>,
    /// The client certificate for etcd.
    #[arg(long, value_name = "FILE", requires = "etcd_keyfile")]
    pub etcd_certfile: Option<PathBuf>,
    /// The key of the client certificate for etcd.
    #[arg(long, value_name = "FILE", requires = "etcd_certfile")]
    pub etcd_keyfile: Option<PathBuf>,
    /// The EncryptionConfiguration with which the objects are encrypted.
    #[arg(long, value_name = "PATH")]
    pub encryption_provider_config: Option<PathBuf>,
    /// The EncryptionConfiguration with which the copy is encrypted [default: that of --encryption-provider-config].
    #[arg(long, value_name = "PATH")]
    pub to_encryption_provider_config: Option<PathBuf>,
}

/// One end of a copy.
#[derive(Debug, PartialEq, Eq)]
enum Location {
    Dir(PathBuf),
    Backup(PathBuf),
    Etcd(Vec<String>),
}

/// Copies the objects and compares the copy with the original.
pub(super) async fn copy(args: &Copy) -> Result<()> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let from_encryption = encryption(args.encryption_provider_config.as_deref(), &clock)?;
    let to_encryption = match &args.to_encryption_provider_config {
        Some(path) => encryption(Some(path), &clock)?,
        None => from_encryption.clone(),
    };
    let (from, to) = (Location::of_source(&args.from)?, Location::of_target(args)?);
    let source = open(args, &from, &from_encryption, &clock).await?;
    let objects = source.snapshot();
    eprintln!(
        "{} has {} objects at revision {}",
        args.from,
        count(&objects),
        objects.revision()
    );
    write(args, &to, &source, &to_encryption).await?;
    let written = open(args, &to, &to_encryption, &clock).await?;
    verify(&objects, &written.snapshot())?;
    println!(
        "{} holds {} objects at revision {}, equal to those of {}",
        args.to,
        count(&written.snapshot()),
        written.snapshot().revision(),
        args.from
    );
    Ok(())
}

impl Location {
    fn of_source(text: &str) -> Result<Self> {
        if let Some(etcd) = Self::etcd(text) {
            return Ok(etcd);
        }
        let path = PathBuf::from(text);
        match path.is_dir() {
            true => Ok(Location::Dir(store_dir(&path))),
            false if path.is_file() => Ok(Location::Backup(path)),
            false => bail!("{text} is no data directory, no backup file and no URL of etcd"),
        }
    }

    fn of_target(args: &Copy) -> Result<Self> {
        if let Some(etcd) = Self::etcd(&args.to) {
            return Ok(etcd);
        }
        let path = PathBuf::from(&args.to);
        if args.to_backup {
            ensure!(!path.exists(), "{} exists", args.to);
            return Ok(Location::Backup(path));
        }
        Ok(Location::Dir(path.join("store")))
    }

    fn etcd(text: &str) -> Option<Self> {
        let is_url = text.starts_with("http://") || text.starts_with("https://");
        is_url.then(|| Location::Etcd(text.split(',').map(ToOwned::to_owned).collect()))
    }
}

pub(super) fn encryption(path: Option<&Path>, clock: &Arc<dyn Clock>) -> Result<Arc<Encryption>> {
    match path {
        Some(path) => Ok(Encryption::load(path, clock.clone())?),
        None => Ok(Encryption::none()),
    }
}

/// Opens the store at a location.
async fn open(
    args: &Copy,
    location: &Location,
    encryption: &Arc<Encryption>,
    clock: &Arc<dyn Clock>,
) -> Result<Store> {
    let now = clock.clone();
    let mut config = Config::new(Arc::new(move || now.millis()));
    config.transformer = Some(encryption.clone());
    match location {
        Location::Dir(dir) => Ok(Store::open(dir, config)?),
        Location::Backup(file) => Ok(Store::open_backup(file, config)?),
        Location::Etcd(servers) => open_etcd(args, servers, config).await,
    }
}

async fn open_etcd(args: &Copy, servers: &[String], mut config: Config) -> Result<Store> {
    let kinds = setpoint_kinds::builtin();
    config.codec = Arc::new(EtcdLayout::new(&args.etcd_prefix, &kinds));
    let tls = TlsFiles {
        authority: args.etcd_cafile.clone(),
        certificate: args.etcd_certfile.clone(),
        key: args.etcd_keyfile.clone(),
    };
    let mut etcd = EtcdConfig::new(servers, &tls)?;
    etcd.compaction_interval = Duration::ZERO;
    let store = setpoint_etcd::open(etcd, config).await?;
    let undecodable = store.undecodable_keys();
    for (key, reason) in &undecodable {
        eprintln!("cannot decode {}: {reason}", key.escape_ascii());
    }
    ensure!(
        undecodable.is_empty(),
        "{} keys cannot be decoded; nothing was copied",
        undecodable.len()
    );
    Ok(store)
}

/// Writes the objects of the source to a location where there are none.
async fn write(args: &Copy, to: &Location, source: &Store, encryption: &Arc<Encryption>) -> Result<()> {
    match to {
        Location::Backup(file) => {
            source.backup_with(file, Some(encryption.clone())).await?;
        }
        Location::Dir(dir) => {
            let parent = dir.parent().context("the directory has no parent")?;
            open_private_dir(parent)?;
            let backup = parent.join("copy.img");
            source.backup_with(&backup, Some(encryption.clone())).await?;
            let restored = Store::restore(&backup, dir);
            fs::remove_file(&backup).with_context(|| format!("cannot remove {}", backup.display()))?;
            restored?;
        }
        Location::Etcd(servers) => {
            let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
            let target = open(args, to, encryption, &clock).await?;
            let existing = count(&target.snapshot());
            ensure!(
                existing == 0,
                "{} already has {existing} objects under {}",
                servers.join(","),
                args.etcd_prefix
            );
            write_objects(&source.snapshot(), &target).await?;
            target.close().await?;
        }
    }
    Ok(())
}

/// Writes each object in a transaction of its own, as servers do: a watch must not see two objects at one revision.
async fn write_objects(objects: &Snapshot, target: &Store) -> Result<()> {
    let total = count(objects);
    let mut writes = JoinSet::new();
    let mut written = 0;
    for record in records(objects) {
        if writes.len() >= WRITES_IN_FLIGHT {
            finish(writes.join_next().await)?;
        }
        let put = etcd_layout::put_again(&record);
        let txn = Txn {
            compares: vec![Compare::Absent { key: put.key.clone() }],
            ops: vec![Op::Put(put)],
        };
        let target = target.clone();
        writes.spawn(async move { target.commit(txn).await });
        written += 1;
        if written % PROGRESS_OBJECTS == 0 {
            eprintln!("wrote {written} of {total} objects");
        }
    }
    while let Some(ended) = writes.join_next().await {
        finish(Some(ended))?;
    }
    Ok(())
}

/// The records of all objects.
fn records(snapshot: &Snapshot) -> impl Iterator<Item = Arc<Record>> + '_ {
    let records = snapshot.prefix(OBJECTS);
    records.filter(|record| etcd_layout::is_object_key(&record.key))
}

fn count(snapshot: &Snapshot) -> usize {
    records(snapshot).count()
}

/// The outcome of a write.
fn finish<T, J: std::error::Error + Send + Sync + 'static>(
    ended: Option<Result<Result<T, setpoint_store::Error>, J>>,
) -> Result<()> {
    match ended {
        Some(ended) => Ok(ended?.map(drop)?),
        None => Ok(()),
    }
}

/// Compares two maps, apart from resource versions.
fn verify(from: &Snapshot, to: &Snapshot) -> Result<()> {
    let mut different = 0;
    for record in records(from) {
        let copied = to.get(&record.key);
        let is_equal = copied.is_some_and(|copied| {
            etcd_layout::put_again(&copied).value == etcd_layout::put_again(&record).value
        });
        if !is_equal {
            eprintln!("{} differs from the original", record.key.escape_ascii());
            different += 1;
        }
    }
    let (from, to) = (count(from), count(to));
    ensure!(from == to, "the copy has {to} objects, the original {from}");
    ensure!(different == 0, "{different} objects differ from the original");
    Ok(())
}
