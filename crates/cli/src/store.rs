//! `setpoint store`: verify, back up, restore and copy a store.

mod copy;

use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result};
use clap::Subcommand;
use setpoint_api::{Clock, SystemClock};
use setpoint_store::{Store, open_private_dir};

use crate::remote;

pub use copy::Copy;

/// The path of the backup of a running server.
pub const BACKUP_PATH: &str = "/debug/setpoint/backup";

/// Mode of a file that only its owner may use.
const FILE_MODE: u32 = 0o600;

/// The subcommands of `setpoint store`.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Read a whole store and check every record. The store must not be in use.
    Verify(Verify),
    /// Write a backup of a store at one revision, from a running server or from a data directory.
    Backup(Backup),
    /// Restore a backup into a new store.
    Restore(Restore),
    /// Copy the objects of a store between a data directory, a backup file and etcd, and verify the copy.
    ///
    /// Objects, their uids and everything else in them stay as they are. Between files (data directory, backup file)
    /// revisions stay, too, and with them resource versions. From etcd to files, etcd's revisions become the store's. etcd
    /// assigns revisions itself, so objects that are copied to it get new resource versions, and clients of the old server
    /// have to list again. The history of changes is not copied.
    ///
    /// A data directory must not be in use. Objects that are written to etcd during a copy from it are not in the copy.
    /// Certificates and signing keys are not in the store: copy the folder `pki` of the data directory, too, if clients are
    /// to trust the new server.
    Copy(Copy),
    /// Give up the damaged end of a store's log, and with it the acknowledged writes in it. The store must not be in
    /// use.
    Truncate(Truncate),
}

/// The arguments of `setpoint store verify`.
#[derive(Debug, clap::Args)]
pub struct Verify {
    /// The data directory, or the store directory in it.
    pub dir: PathBuf,
}

/// The arguments of `setpoint store backup`.
#[derive(Debug, clap::Args)]
pub struct Backup {
    /// The backup file to write. It must not exist.
    pub file: PathBuf,
    /// The data directory of a store that is not in use. If not set, the backup is requested from the running server of
    /// the kubeconfig.
    #[arg(long, value_name = "DIR", conflicts_with = "kubeconfig")]
    pub data_dir: Option<PathBuf>,
    /// The EncryptionConfiguration of the store, with --data-dir. The backup is encrypted, too.
    #[arg(long, value_name = "PATH", requires = "data_dir")]
    pub encryption_provider_config: Option<PathBuf>,
    /// Path to the kubeconfig file of the running server [default: $KUBECONFIG or ~/.kube/config].
    #[arg(long, value_name = "PATH")]
    pub kubeconfig: Option<PathBuf>,
}

/// The arguments of `setpoint store restore`.
#[derive(Debug, clap::Args)]
pub struct Restore {
    /// The backup file to read.
    pub file: PathBuf,
    /// The data directory to create.
    pub dir: PathBuf,
}

/// The arguments of `setpoint store truncate`.
#[derive(Debug, clap::Args)]
pub struct Truncate {
    /// The data directory, or the store directory in it.
    pub dir: PathBuf,
}

/// Runs a subcommand.
pub fn run(command: &Command) -> Result<()> {
    match command {
        Command::Verify(args) => verify(args),
        Command::Backup(args) => backup(args),
        Command::Restore(args) => restore(args),
        Command::Copy(args) => runtime()?.block_on(copy::copy(args)),
        Command::Truncate(args) => truncate(args),
    }
}

/// Checks every record.
fn verify(args: &Verify) -> Result<()> {
    let dir = store_dir(&args.dir);
    let report = Store::verify(&dir)?;
    println!(
        "{} is valid: {} keys at revision {}",
        dir.display(),
        report.keys,
        report.revision
    );
    println!(
        "  {} segments, {} frames, {} transactions after the snapshot file",
        report.segments, report.frames, report.records
    );
    if let Some(torn) = report.torn {
        println!(
            "  an incomplete write at byte {} of {}, not known to have been acknowledged, is discarded at the next start",
            torn.offset,
            torn.file.display()
        );
    }
    Ok(())
}

/// Writes a backup, of a store that is not in use or of a running server.
fn backup(args: &Backup) -> Result<()> {
    let runtime = runtime()?;
    match &args.data_dir {
        Some(dir) => runtime.block_on(backup_stopped(&store_dir(dir), args)),
        None => runtime.block_on(backup_running(args)),
    }
}

fn runtime() -> Result<tokio::runtime::Runtime> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.context("cannot start the runtime")
}

async fn backup_stopped(dir: &Path, args: &Backup) -> Result<()> {
    anyhow::ensure!(dir.is_dir(), "no store found in {}", dir.display());
    let (clock, file): (Arc<dyn Clock>, _) = (Arc::new(SystemClock::new()), &args.file);
    let encryption = copy::encryption(args.encryption_provider_config.as_deref(), &clock)?;
    let mut config = setpoint_store::Config::new(Arc::new(move || clock.millis()));
    config.transformer = Some(encryption);
    let store = Store::open(dir, config)?;
    let report = store.backup(file).await?;
    println!(
        "{} holds {} keys at revision {}",
        file.display(),
        report.keys,
        report.revision
    );
    Ok(store.close().await?)
}

async fn backup_running(args: &Backup) -> Result<()> {
    let connection = remote::connection(args.kubeconfig.as_deref())?;
    let mut file = create(&args.file).with_context(|| format!("cannot create {}", args.file.display()))?;
    let bytes = remote::get(&connection, BACKUP_PATH).await?;
    file.write_all(&bytes)
        .and_then(|()| file.sync_all())
        .context("cannot write the backup")?;
    println!(
        "{} holds {} bytes from {}",
        args.file.display(),
        bytes.len(),
        connection.server
    );
    Ok(())
}

/// Creates a backup file. It holds every Secret, so only its owner may read it, whatever the umask is.
fn create(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    let file = options.write(true).create_new(true).mode(FILE_MODE).open(path)?;
    file.set_permissions(Permissions::from_mode(FILE_MODE))?;
    Ok(file)
}

/// Restores a backup into a new store.
fn restore(args: &Restore) -> Result<()> {
    let dir = args.dir.join("store");
    open_private_dir(&args.dir)?;
    let report = Store::restore(&args.file, &dir)?;
    println!(
        "{} holds {} keys at revision {}",
        dir.display(),
        report.keys,
        report.revision
    );
    println!("  start it with: setpoint up --data-dir {}", args.dir.display());
    Ok(())
}

/// Gives up the damaged end of a log.
fn truncate(args: &Truncate) -> Result<()> {
    let dir = store_dir(&args.dir);
    let report = Store::truncate(&dir)?;
    match report.acknowledged > report.revision {
        true => println!(
            "{} ends at revision {}; the acknowledged revisions up to {} are lost",
            dir.display(),
            report.revision,
            report.acknowledged
        ),
        false => println!(
            "{} is complete up to revision {}; nothing was changed",
            dir.display(),
            report.revision
        ),
    }
    Ok(())
}

/// The store in a data directory, or the directory itself if it is a store's.
fn store_dir(dir: &Path) -> PathBuf {
    let inside = dir.join("store");
    if inside.is_dir() { inside } else { dir.to_owned() }
}
