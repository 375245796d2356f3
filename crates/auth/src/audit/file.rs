//! Rotation of the audit log file.
//!
//! A full file is renamed with a timestamp: `audit.log` becomes `audit-2026-01-01T00-00-00.000.log`, as kube-apiserver
//! names it, so that log collectors keep working.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use setpoint_api::Clock;
use tokio::fs::{self, File, OpenOptions};
use tokio::io::AsyncWriteExt as _;

/// Limits of file size and backups.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// A file that would exceed this size is rotated; `None`: never.
    pub max_bytes: Option<u64>,
    /// How many rotated files are kept; `None`: all.
    pub max_backups: Option<usize>,
}

/// An audit log file with mode 0600.
#[derive(Debug)]
pub struct RotatingFile {
    path: PathBuf,
    limits: Limits,
    clock: Arc<dyn Clock>,
    file: File,
    /// The current length of the file.
    length: u64,
}

impl RotatingFile {
    /// Opens the file, appending to an existing one.
    pub async fn open(path: &Path, limits: Limits, clock: Arc<dyn Clock>) -> io::Result<Self> {
        let file = append_to(path).await?;
        let length = file.metadata().await?.len();
        Ok(Self {
            path: path.to_owned(),
            limits,
            clock,
            file,
            length,
        })
    }

    /// Appends lines, all to the same file.
    pub(super) async fn write(&mut self, text: &[u8]) -> io::Result<()> {
        let length = self.length + text.len() as u64;
        if self.length > 0 && self.limits.max_bytes.is_some_and(|most| length > most) {
            self.rotate().await?;
        }
        self.file.write_all(text).await?;
        self.file.flush().await?;
        self.length += text.len() as u64;
        Ok(())
    }

    async fn rotate(&mut self) -> io::Result<()> {
        let (stem, extension) = self.name();
        let time = self.clock.now().strftime("%Y-%m-%dT%H-%M-%S%.3f");
        let backup = self.path.with_file_name(format!("{stem}-{time}{extension}"));
        fs::rename(&self.path, backup).await?;
        self.file = append_to(&self.path).await?;
        self.length = 0;
        self.remove_oldest().await
    }

    /// The names contain timestamps, so their order is chronological.
    async fn remove_oldest(&self) -> io::Result<()> {
        let Some(most) = self.limits.max_backups else {
            return Ok(());
        };
        let mut backups = self.backups().await?;
        backups.sort();
        for oldest in backups.iter().take(backups.len().saturating_sub(most)) {
            fs::remove_file(oldest).await?;
        }
        Ok(())
    }

    async fn backups(&self) -> io::Result<Vec<PathBuf>> {
        let (stem, extension) = self.name();
        let folder = match self.path.parent() {
            Some(folder) if folder != Path::new("") => folder,
            _ => Path::new("."),
        };
        let (mut entries, mut found) = (fs::read_dir(folder).await?, Vec::new());
        while let Some(entry) = entries.next_entry().await? {
            let name = entry.file_name();
            let time = name
                .to_str()
                .and_then(|name| name.strip_prefix(&format!("{stem}-")))
                .and_then(|name| name.strip_suffix(&extension));
            if time.is_some_and(is_time) {
                found.push(entry.path());
            }
        }
        Ok(found)
    }

    /// The parts of a backup's name before and after the timestamp.
    fn name(&self) -> (String, String) {
        let text = |part: Option<&std::ffi::OsStr>| part.map(|part| part.to_string_lossy().into_owned());
        let extension = text(self.path.extension()).map(|extension| format!(".{extension}"));
        (
            text(self.path.file_stem()).unwrap_or_default(),
            extension.unwrap_or_default(),
        )
    }
}

async fn append_to(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .append(true)
        .create(true)
        .mode(0o600)
        .open(path)
        .await
}

/// Whether a text is a timestamp as in backup names.
fn is_time(text: &str) -> bool {
    let pattern = "0000-00-00T00-00-00.000";
    let fits = |(byte, pattern): (u8, u8)| byte == pattern || (pattern == b'0' && byte.is_ascii_digit());
    text.len() == pattern.len() && text.bytes().zip(pattern.bytes()).all(fits)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;
    use crate::fixtures::ManualClock;

    fn names(folder: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(folder).unwrap();
        let mut names: Vec<String> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[tokio::test]
    async fn a_full_file_is_rotated_and_the_oldest_backup_removed() {
        let folder = tempfile::tempdir().unwrap();
        let (path, clock) = (
            folder.path().join("audit.log"),
            ManualClock::at("2026-01-01T00:00:00Z"),
        );
        std::fs::write(folder.path().join("audit-notes.log"), "").unwrap();
        let limits = Limits {
            max_bytes: Some(8),
            max_backups: Some(2),
        };
        let mut file = RotatingFile::open(&path, limits, clock.clone()).await.unwrap();
        for line in ["one\n", "two\n", "three\n", "four\n", "five\n"] {
            clock.advance(1);
            file.write(line.as_bytes()).await.unwrap();
        }
        assert_eq!(
            names(folder.path()),
            [
                "audit-2026-01-01T00-00-04.000.log",
                "audit-2026-01-01T00-00-05.000.log",
                "audit-notes.log",
                "audit.log"
            ]
        );
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "five\n");
    }

    #[tokio::test]
    async fn an_existing_file_is_appended_to_with_private_permissions() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit.log");
        let limits = Limits {
            max_bytes: None,
            max_backups: None,
        };
        for line in ["one\n", "two\n"] {
            let mut file = RotatingFile::open(&path, limits, ManualClock::at("2026-01-01T00:00:00Z"))
                .await
                .unwrap();
            file.write(line.as_bytes()).await.unwrap();
        }
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "one\ntwo\n");
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
}
