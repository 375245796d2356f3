//! The directory of the files that the operator and its hooks exchange (`--tmp-dir`). Its default is in a directory that all
//! users share, so it must not belong to another user, who could replace what hooks and webhooks read.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

/// Creates the directory, or accepts one of this user or of root. Returns its absolute path: hooks run in directories of
/// their own, in which a relative path would name another file.
pub(crate) fn open(path: &Path) -> io::Result<PathBuf> {
    let path = std::path::absolute(path)?;
    DirBuilder::new().recursive(true).mode(0o700).create(&path)?;
    let owner = fs::metadata(&path)?.uid();
    match owner == 0 || owner == rustix::process::geteuid().as_raw() {
        true => Ok(path),
        false => Err(io::Error::other(format!("it belongs to another user ({owner})"))),
    }
}

/// Creates a directory in it that only this user can use. Its contents of an earlier run are removed.
pub(crate) fn create_private(path: &Path) -> io::Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => DirBuilder::new().mode(0o700).create(path),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().mode() & 0o777
    }

    #[test]
    fn new_directories_are_private_and_old_contents_are_removed() {
        let parent = tempfile::tempdir().unwrap();
        let directory = parent.path().join("a/b");
        open(&directory).unwrap();
        assert_eq!(open(&directory).unwrap(), directory);
        assert_eq!(mode(&directory), 0o700);
        let certificates = directory.join("certs");
        create_private(&certificates).unwrap();
        fs::write(certificates.join("tls.key"), "old").unwrap();
        create_private(&certificates).unwrap();
        assert_eq!(mode(&certificates), 0o700);
        assert!(!certificates.join("tls.key").exists());
    }

    #[test]
    fn a_relative_path_becomes_absolute() {
        // The directory of the crate, in which tests run, exists.
        let found = open(Path::new("src")).unwrap();
        assert_eq!(found, std::env::current_dir().unwrap().join("src"));
    }

    #[test]
    fn a_directory_of_another_user_is_rejected() {
        let parent = tempfile::tempdir().unwrap();
        let directory = parent.path().join("a");
        fs::create_dir(&directory).unwrap();
        // Only root can give a directory away.
        if std::os::unix::fs::chown(&directory, Some(12_345), None).is_ok() && !is_user(12_345) {
            let error = open(&directory).unwrap_err();
            assert_eq!(error.to_string(), "it belongs to another user (12345)");
        }
    }

    fn is_user(uid: u32) -> bool {
        rustix::process::geteuid().as_raw() == uid
    }
}
