//! A file that starts over when it is full, and keeps a few of those before it.
//!
//! The full file is renamed with its time: `audit.log` becomes `audit-2026-01-01T00-00-00.000.log`, which is how
//! kube-apiserver names them, so the tools that collect them go on working.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use setpoint_api::Clock;
use tokio::fs::{self, File, OpenOptions};
use tokio::io::AsyncWriteExt as _;

/// How much is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// A file that would grow beyond this is put aside; none means: never.
    pub bytes: Option<u64>,
    /// How many files that were put aside are kept; none means: all.
    pub backups: Option<usize>,
}

/// An audit log in a file. Only its owner may read it.
#[derive(Debug)]
pub struct RotatingFile {
    path: PathBuf,
    limits: Limits,
    clock: Arc<dyn Clock>,
    file: File,
    /// How long the file is.
    length: u64,
}

impl RotatingFile {
    /// Goes on with a file that is there.
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

    /// Appends lines; they are in one file together.
    pub(super) async fn write(&mut self, text: &[u8]) -> io::Result<()> {
        let length = self.length + text.len() as u64;
        if self.length > 0 && self.limits.bytes.is_some_and(|most| length > most) {
            self.put_aside().await?;
        }
        self.file.write_all(text).await?;
        self.file.flush().await?;
        self.length += text.len() as u64;
        Ok(())
    }

    async fn put_aside(&mut self) -> io::Result<()> {
        let (stem, extension) = self.name();
        let time = self.clock.now().strftime("%Y-%m-%dT%H-%M-%S%.3f");
        let aside = self.path.with_file_name(format!("{stem}-{time}{extension}"));
        fs::rename(&self.path, aside).await?;
        self.file = append_to(&self.path).await?;
        self.length = 0;
        self.drop_oldest().await
    }

    /// The names have their times in them, so their order is that of time.
    async fn drop_oldest(&self) -> io::Result<()> {
        let Some(most) = self.limits.backups else {
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

    /// What stands before and behind the time in the name of a file that was put aside.
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

/// Whether a text is a time as it stands in the names.
fn is_time(text: &str) -> bool {
    let shape = "0000-00-00T00-00-00.000";
    let fits = |(byte, wanted): (u8, u8)| byte == wanted || (wanted == b'0' && byte.is_ascii_digit());
    text.len() == shape.len() && text.bytes().zip(shape.bytes()).all(fits)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;
    use crate::fixtures::At;

    fn names(folder: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(folder).unwrap();
        let mut names: Vec<String> = entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    #[tokio::test]
    async fn a_full_file_is_put_aside_and_the_oldest_goes() {
        let folder = tempfile::tempdir().unwrap();
        let (path, clock) = (folder.path().join("audit.log"), At::time("2026-01-01T00:00:00Z"));
        std::fs::write(folder.path().join("audit-notes.log"), "").unwrap();
        let limits = Limits {
            bytes: Some(8),
            backups: Some(2),
        };
        let mut file = RotatingFile::open(&path, limits, clock.clone()).await.unwrap();
        for line in ["one\n", "two\n", "three\n", "four\n", "five\n"] {
            clock.pass(1);
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
    async fn a_file_that_is_there_goes_on_and_is_the_owners_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit.log");
        let limits = Limits {
            bytes: None,
            backups: None,
        };
        for line in ["one\n", "two\n"] {
            let mut file = RotatingFile::open(&path, limits, At::time("2026-01-01T00:00:00Z"))
                .await
                .unwrap();
            file.write(line.as_bytes()).await.unwrap();
        }
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "one\ntwo\n");
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
}
