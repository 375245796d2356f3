//! Private directories: a user who can write to a directory of keys and objects owns the server, and one who can read
//! it has every secret, so such a directory belongs to the user of this process alone.

use std::{
    fs::{self, DirBuilder, File, Metadata, Permissions},
    io,
    os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt},
    path::Path,
};

use crate::Error;

/// Mode of a directory that only its owner may use.
const DIR_MODE: u32 = 0o700;

/// Mode of a file that only its owner may use.
pub(crate) const FILE_MODE: u32 = 0o600;

/// The bits that let another user read or change a file.
const OTHERS: u32 = 0o077;

/// The bits that let another user change a file.
const OTHERS_WRITE: u32 = 0o022;

/// The bits of a mode that are permissions.
const PERMISSIONS: u32 = 0o7777;

/// Creates `dir` and its missing parents for the user of this process alone. A directory that exists must belong to
/// that user, and no other user may be able to write to it, unless it is empty: then that right is taken away.
pub fn open_private_dir(dir: &Path) -> Result<(), Error> {
    match fs::symlink_metadata(dir) {
        Ok(link) => check_dir(dir, &link),
        Err(error) if error.kind() == io::ErrorKind::NotFound => create_dir(dir),
        Err(error) => Err(Error::io("open", dir)(error)),
    }
}

/// Creates `dir`, which must not exist, for the user of this process alone.
pub fn create_private_dir(dir: &Path) -> Result<(), Error> {
    let created = DirBuilder::new().mode(DIR_MODE).create(dir);
    created.map_err(Error::io("create", dir))?;
    set_mode(dir, DIR_MODE)
}

/// Takes all rights of other users to the directory `dir` away.
pub fn restrict_dir(dir: &Path) -> Result<(), Error> {
    restrict(dir, DIR_MODE)
}

/// Takes all rights of other users to the file `path` away. It must belong to the user of this process.
pub fn restrict_file(path: &Path) -> Result<(), Error> {
    check_owner(path, &metadata(path)?)?;
    restrict(path, FILE_MODE)
}

/// Like [`restrict_file`], for a file whose contents are trusted: no other user may have been able to change them.
pub fn restrict_secret(path: &Path) -> Result<(), Error> {
    check_unwritable(path, &metadata(path)?)?;
    restrict_file(path)
}

/// Gives an open file of this process its mode, whatever the umask was.
pub(crate) fn restrict_open_file(file: &File) -> io::Result<()> {
    match file.metadata()?.mode() & PERMISSIONS {
        FILE_MODE => Ok(()),
        _ => file.set_permissions(Permissions::from_mode(FILE_MODE)),
    }
}

fn create_dir(dir: &Path) -> Result<(), Error> {
    if let Some(parent) = dir.parent() {
        let mut parents = DirBuilder::new();
        let created = parents.recursive(true).mode(DIR_MODE).create(parent);
        created.map_err(Error::io("create", parent))?;
    }
    create_private_dir(dir)
}

/// `link` is the metadata of `dir` itself, which may be a symbolic link. A link of another user may be changed to name
/// another directory at any time; one of root is part of the system's layout.
fn check_dir(dir: &Path, link: &Metadata) -> Result<(), Error> {
    if link.is_symlink() && link.uid() != 0 {
        check_owner(dir, link)?;
    }
    let target = metadata(dir)?;
    if !target.is_dir() {
        return Err(Error::io("open", dir)(io::ErrorKind::NotADirectory.into()));
    }
    check_owner(dir, &target)?;
    if target.mode() & OTHERS_WRITE != 0 && is_empty(dir)? {
        set_mode(dir, DIR_MODE)?;
        // Another user may have been faster.
        if is_empty(dir)? {
            return Ok(());
        }
    }
    check_unwritable(dir, &target)
}

fn is_empty(dir: &Path) -> Result<bool, Error> {
    let mut entries = fs::read_dir(dir).map_err(Error::io("list", dir))?;
    Ok(entries.next().is_none())
}

fn check_owner(path: &Path, metadata: &Metadata) -> Result<(), Error> {
    let user = rustix::process::geteuid().as_raw();
    let owner = metadata.uid();
    if owner == user {
        return Ok(());
    }
    Err(Error::NotPrivate {
        path: path.to_owned(),
        what: format!("it belongs to user {owner}, and this process runs as user {user}"),
        advice: "run as its owner, or use another directory",
    })
}

fn check_unwritable(path: &Path, metadata: &Metadata) -> Result<(), Error> {
    let mode = metadata.mode() & PERMISSIONS;
    if mode & OTHERS_WRITE == 0 {
        return Ok(());
    }
    Err(Error::NotPrivate {
        path: path.to_owned(),
        what: format!("other users may write to it (mode {mode:04o})"),
        advice: "check that nothing in it was changed and run `chmod -R go-w` on it, or use another directory",
    })
}

fn restrict(path: &Path, mode: u32) -> Result<(), Error> {
    match metadata(path)?.mode() & OTHERS {
        0 => Ok(()),
        _ => set_mode(path, mode),
    }
}

fn set_mode(path: &Path, mode: u32) -> Result<(), Error> {
    let set = fs::set_permissions(path, Permissions::from_mode(mode));
    set.map_err(Error::io("restrict the mode of", path))
}

fn metadata(path: &Path) -> Result<Metadata, Error> {
    fs::metadata(path).map_err(Error::io("open", path))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{chown, symlink};

    use super::*;

    fn chmod(path: &Path, mode: u32) {
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().mode() & PERMISSIONS
    }

    #[track_caller]
    fn check_rejected(dir: &Path, message: &str) {
        let error = open_private_dir(dir).unwrap_err();
        assert!(matches!(&error, Error::NotPrivate { path, .. } if path == dir));
        assert!(error.to_string().contains(message), "{error}");
    }

    /// Only root can give a directory away.
    fn is_root() -> bool {
        rustix::process::geteuid().is_root()
    }

    #[test]
    fn a_directory_is_created_with_its_parents_for_the_owner_alone() {
        let dir = tempfile::tempdir().unwrap();
        let inner = dir.path().join("a/b");
        open_private_dir(&inner).unwrap();
        assert_eq!((mode(&inner), mode(&dir.path().join("a"))), (0o700, 0o700));
        open_private_dir(&inner).unwrap();
        assert!(matches!(create_private_dir(&inner), Err(Error::Io { .. })));
    }

    #[test]
    fn a_directory_that_others_can_write_to_is_rejected() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("theirs"), "").unwrap();
        for (bits, shown) in [(0o770, "0770"), (0o702, "0702"), (0o1777, "1777")] {
            chmod(dir.path(), bits);
            check_rejected(dir.path(), shown);
            assert_eq!(mode(dir.path()), bits, "nothing is changed");
        }
        chmod(dir.path(), 0o755);
        open_private_dir(dir.path()).unwrap();
    }

    #[test]
    fn an_empty_directory_that_others_can_write_to_is_restricted() {
        let dir = tempfile::tempdir().unwrap();
        chmod(dir.path(), 0o777);
        open_private_dir(dir.path()).unwrap();
        assert_eq!(mode(dir.path()), 0o700);
    }

    #[test]
    fn a_directory_or_link_of_another_user_is_rejected() {
        if !is_root() {
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let (theirs, ours) = (dir.path().join("theirs"), dir.path().join("ours"));
        fs::create_dir(&theirs).unwrap();
        fs::create_dir(&ours).unwrap();
        chown(&theirs, Some(1234), None).unwrap();
        check_rejected(&theirs, "belongs to user 1234, and this process runs as user 0");
        let link = dir.path().join("link");
        symlink(&ours, &link).unwrap();
        open_private_dir(&link).unwrap();
        std::os::unix::fs::lchown(&link, Some(1234), None).unwrap();
        check_rejected(&link, "belongs to user 1234");
    }

    #[test]
    fn a_link_to_a_directory_of_another_user_is_rejected() {
        if !is_root() {
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let (theirs, link) = (dir.path().join("theirs"), dir.path().join("link"));
        fs::create_dir(&theirs).unwrap();
        chown(&theirs, Some(1234), None).unwrap();
        symlink(&theirs, &link).unwrap();
        check_rejected(&link, "belongs to user 1234");
    }

    #[test]
    fn a_file_that_others_can_read_is_restricted() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        fs::write(&file, "").unwrap();
        chmod(&file, 0o664);
        assert!(matches!(restrict_secret(&file), Err(Error::NotPrivate { .. })));
        restrict_file(&file).unwrap();
        assert_eq!(mode(&file), 0o600);
        chmod(&file, 0o644);
        restrict_secret(&file).unwrap();
        assert_eq!(mode(&file), 0o600);
    }
}
