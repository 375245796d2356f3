//! Rotation of log files by size: `0.log` becomes `0.log.<time>`, older ones are compressed, and the oldest removed.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;
use jiff::Timestamp;
use jiff::tz::TimeZone;
use setpoint_container_runtime::{ContainerRecord, ContainerState, Runtime};

/// When logs are rotated, and how many files a container has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RotationPolicy {
    /// A file larger than this is rotated.
    pub max_bytes: u64,
    /// The number of files of a container, the current one among them.
    pub max_files: usize,
}

impl Default for RotationPolicy {
    /// That of the kubelet: 10 MiB and 5 files.
    fn default() -> Self {
        Self {
            max_bytes: 10 << 20,
            max_files: 5,
        }
    }
}

/// Rotates the logs of all running containers that are too large.
pub async fn rotate_logs(runtime: &dyn Runtime, policy: RotationPolicy, now: Timestamp) {
    let containers = match runtime.list_containers().await {
        Ok(containers) => containers,
        Err(error) => {
            tracing::warn!(%error, "cannot list containers to rotate their logs");
            return;
        }
    };
    let is_running = |one: &&ContainerRecord| matches!(one.state, ContainerState::Running { .. });
    for container in containers.iter().filter(is_running) {
        // Lists may be without the path.
        let record = match container.log_path.is_empty() {
            true => runtime.container(&container.id).await.ok().flatten(),
            false => Some(container.clone()),
        };
        let Some(record) = record.filter(|record| !record.log_path.is_empty()) else {
            continue;
        };
        if let Err(error) = rotate_container(runtime, &record, policy, now).await {
            let container = &record.id.0;
            tracing::warn!(%error, container, "cannot rotate the log of a container");
        }
    }
}

async fn rotate_container(
    runtime: &dyn Runtime,
    record: &ContainerRecord,
    policy: RotationPolicy,
    now: Timestamp,
) -> io::Result<()> {
    let path = PathBuf::from(&record.log_path);
    let rotated = tokio::task::spawn_blocking(move || rotate_file(&path, policy, now));
    let Some((path, renamed)) = rotated.await.map_err(io::Error::other)?? else {
        return Ok(());
    };
    match runtime.reopen_log(&record.id).await {
        Ok(()) => Ok(()),
        // The container goes on writing to the renamed file, so that it gets its name back.
        Err(error) => {
            tokio::fs::rename(&renamed, &path).await?;
            Err(io::Error::other(error))
        }
    }
}

/// Renames the file if it is too large, after compressing and removing older ones. Returns its path and its new one.
fn rotate_file(
    path: &Path,
    policy: RotationPolicy,
    now: Timestamp,
) -> io::Result<Option<(PathBuf, PathBuf)>> {
    match fs::metadata(path) {
        Ok(metadata) if metadata.len() >= policy.max_bytes => {}
        Ok(_) => return Ok(None),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    }
    let mut rotated = rotated_files(path)?;
    // The current file, and the one that it becomes.
    while rotated.len() > policy.max_files.saturating_sub(2) {
        fs::remove_file(rotated.remove(0))?;
    }
    for file in rotated.iter().filter(|file| !is_compressed(file)) {
        compress(file)?;
    }
    let time = now.to_zoned(TimeZone::UTC).strftime("%Y%m%d-%H%M%S");
    let renamed = PathBuf::from(format!("{}.{time}", path.display()));
    fs::rename(path, &renamed)?;
    Ok(Some((path.to_owned(), renamed)))
}

/// The rotated files of a log, oldest first. Unfinished compressed files are removed.
fn rotated_files(path: &Path) -> io::Result<Vec<PathBuf>> {
    let (Some(directory), Some(name)) = (path.parent(), path.file_name()) else {
        return Ok(Vec::new());
    };
    let prefix = format!("{}.", name.to_string_lossy());
    let mut files = Vec::new();
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        let name = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        if name.starts_with(&prefix) {
            match name.ends_with(".tmp") {
                true => fs::remove_file(&path)?,
                false => files.push(path),
            }
        }
    }
    files.sort();
    Ok(files)
}

fn is_compressed(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "gz")
}

fn compress(path: &Path) -> io::Result<()> {
    let temporary = PathBuf::from(format!("{}.tmp", path.display()));
    let mut encoder = GzEncoder::new(fs::File::create(&temporary)?, Compression::default());
    io::copy(&mut fs::File::open(path)?, &mut encoder)?;
    encoder.finish()?;
    fs::rename(&temporary, format!("{}.gz", path.display()))?;
    fs::remove_file(path)
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use flate2::read::GzDecoder;

    use super::*;

    const POLICY: RotationPolicy = RotationPolicy {
        max_bytes: 10,
        max_files: 3,
    };

    fn names(directory: &Path) -> Vec<String> {
        let entries = fs::read_dir(directory).unwrap();
        let mut names: Vec<String> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn a_large_file_is_renamed_older_ones_compressed_and_the_oldest_removed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("0.log");
        for hour in 0..4 {
            fs::write(&path, format!("{hour} is long enough")).unwrap();
            let now: Timestamp = format!("2026-01-01T0{hour}:00:00Z").parse().unwrap();
            assert!(rotate_file(&path, POLICY, now).unwrap().is_some());
        }
        assert_eq!(
            names(directory.path()),
            ["0.log.20260101-020000.gz", "0.log.20260101-030000"]
        );
        let file = fs::File::open(directory.path().join("0.log.20260101-020000.gz")).unwrap();
        let mut text = String::new();
        GzDecoder::new(file).read_to_string(&mut text).unwrap();
        assert_eq!(text, "2 is long enough");
    }

    #[test]
    fn a_small_or_missing_file_stays() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("0.log");
        assert!(
            rotate_file(&path, POLICY, Timestamp::UNIX_EPOCH)
                .unwrap()
                .is_none()
        );
        fs::write(&path, "short").unwrap();
        assert!(
            rotate_file(&path, POLICY, Timestamp::UNIX_EPOCH)
                .unwrap()
                .is_none()
        );
        assert_eq!(names(directory.path()), ["0.log"]);
    }
}
