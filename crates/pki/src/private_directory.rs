//! [`PrivateDirectory`]: a new directory for keys that no other user can read or prepare.

use std::collections::hash_map::RandomState;
use std::fs::{self, DirBuilder};
use std::hash::{BuildHasher, Hasher};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use crate::Error;

/// A directory in that for temporary files, which all users share. It is removed when this is dropped.
#[derive(Debug)]
pub struct PrivateDirectory(PathBuf);

impl PrivateDirectory {
    /// Creates a directory whose name begins with `prefix` and cannot be foreseen. One that exists is an error, since
    /// another user could have put keys there.
    pub fn create(prefix: &str) -> Result<Self, Error> {
        // The standard library's hash keys are random.
        let random = RandomState::new().build_hasher().finish();
        let directory = std::env::temp_dir().join(format!("{prefix}-{random:016x}"));
        let created = DirBuilder::new().mode(0o700).create(&directory);
        created.map_err(Error::file("make", &directory))?;
        Ok(Self(directory))
    }

    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for PrivateDirectory {
    fn drop(&mut self) {
        // No other user can read what is left over.
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_directory_is_new_private_and_removed_at_the_end() {
        let [first, second] = [(); 2].map(|()| PrivateDirectory::create("setpoint-test").unwrap());
        assert_ne!(first.path(), second.path());
        let mode = fs::metadata(first.path()).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
        fs::write(first.path().join("a.key"), "secret").unwrap();
        let path = first.path().to_owned();
        drop(first);
        assert!(!path.exists());
    }
}
