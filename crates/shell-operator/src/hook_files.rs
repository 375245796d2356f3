//! Files that a run of a hook reads and writes, and the environment variables with their paths.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use uuid::Uuid;

/// The files of one run. Dropping it removes them.
#[derive(Debug)]
pub(crate) struct HookFiles {
    context: PathBuf,
    metrics: PathBuf,
    admission: PathBuf,
    conversion: PathBuf,
    patch: PathBuf,
    keep: bool,
}

/// What a hook has written.
#[derive(Debug, Default)]
pub(crate) struct HookOutput {
    pub(crate) metrics: Vec<u8>,
    pub(crate) admission: Vec<u8>,
    pub(crate) conversion: Vec<u8>,
    pub(crate) patch: Vec<u8>,
}

/// The largest file that is read from a hook.
const MAX_FILE_BYTES: u64 = 256 << 20;

impl HookFiles {
    /// Writes the binding context and creates the other files, which are empty.
    pub(crate) fn create(directory: &Path, hook: &str, context: &[u8], keep: bool) -> io::Result<Self> {
        let hook = safe_name(hook);
        let path = |kind: &str| directory.join(format!("hook-{hook}-{kind}-{}.json", Uuid::new_v4()));
        let files = Self {
            context: path("binding-context"),
            metrics: path("metrics"),
            admission: path("admission-response"),
            conversion: path("conversion-response"),
            patch: directory.join(format!("{hook}-object-patch-{}", Uuid::new_v4())),
            keep,
        };
        create_file(&files.context, context)?;
        for path in [&files.metrics, &files.admission, &files.conversion, &files.patch] {
            create_file(path, b"")?;
        }
        Ok(files)
    }

    /// The environment variables of the hook.
    pub(crate) fn environment(&self) -> [(&'static str, &Path); 6] {
        [
            ("BINDING_CONTEXT_PATH", &self.context),
            ("METRICS_PATH", &self.metrics),
            ("CONVERSION_RESPONSE_PATH", &self.conversion),
            ("VALIDATING_RESPONSE_PATH", &self.admission),
            ("ADMISSION_RESPONSE_PATH", &self.admission),
            ("KUBERNETES_PATCH_PATH", &self.patch),
        ]
    }

    /// What the hook has written.
    pub(crate) fn read(&self) -> io::Result<HookOutput> {
        Ok(HookOutput {
            metrics: read_file(&self.metrics)?,
            admission: read_file(&self.admission)?,
            conversion: read_file(&self.conversion)?,
            patch: read_file(&self.patch)?,
        })
    }
}

impl Drop for HookFiles {
    fn drop(&mut self) {
        if self.keep {
            return;
        }
        let files = [
            &self.context,
            &self.metrics,
            &self.admission,
            &self.conversion,
            &self.patch,
        ];
        for path in files {
            // A hook may have removed it.
            let _ = fs::remove_file(path);
        }
    }
}

/// Creates a file that only this user can read: binding contexts and responses may have the data of Secrets, and the
/// directory may be one that other users can list.
fn create_file(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut options = OpenOptions::new();
    let mut file = options.write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(content)
}

/// A process that the hook has left behind may still write to the file, so the bytes that are read are limited, too.
fn read_file(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?
        .take(MAX_FILE_BYTES + 1)
        .read_to_end(&mut bytes)?;
    match bytes.len() as u64 > MAX_FILE_BYTES {
        true => Err(io::Error::other(format!(
            "{} has more than {MAX_FILE_BYTES} bytes",
            path.display()
        ))),
        false => Ok(bytes),
    }
}

/// The name of a hook as a part of a file name.
fn safe_name(hook: &str) -> String {
    let safe = |letter: char| match letter {
        'a'..='z' | 'A'..='Z' | '0'..='9' => letter,
        _ => '-',
    };
    hook.chars().map(safe).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn the_files_exist_for_one_run() {
        let directory = tempfile::tempdir().unwrap();
        let files = HookFiles::create(directory.path(), "a/b.sh", b"[]", false).unwrap();
        for (variable, path) in files.environment() {
            assert!(path.exists(), "{variable}");
        }
        let [(_, context), .., (_, patch)] = files.environment();
        assert_eq!(fs::read(context).unwrap(), b"[]");
        assert!(context.to_str().unwrap().contains("hook-a-b-sh-binding-context-"));
        fs::write(patch, "x").unwrap();
        assert_eq!(files.read().unwrap().patch, b"x");
        drop(files);
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
    }

    #[test]
    fn other_users_cannot_read_the_files() {
        let directory = tempfile::tempdir().unwrap();
        let files = HookFiles::create(directory.path(), "a.sh", b"[]", false).unwrap();
        for (variable, path) in files.environment() {
            let mode = fs::metadata(path).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600, "{variable}");
        }
    }
}
