//! Parts of volumes, opened without following links out of the volume.
//!
//! A container may replace a directory of a volume by a link to any path of the node. So the kernel resolves the path
//! beneath the volume's directory, and what was found is mounted by its open file, which nothing can exchange any more.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{FileType, Mode, OFlags, ResolveFlags, fstat, mkdirat, open, openat, openat2};
use rustix::io::Errno;

/// Mounts the part of the volume at the target, and returns the target. What does not exist is created as a directory,
/// with the permissions of the volume.
pub(crate) fn prepare(volume: &Path, sub_path: &Path, target: &Path) -> io::Result<PathBuf> {
    let found = open_beneath(volume, sub_path)?;
    let is_directory = FileType::from_raw_mode(fstat(&found)?.st_mode).is_dir();
    // A mount of the same file system does not differ from its directory by the device: what is mounted is found by
    // unmounting it. Otherwise each container of the pod would add a mount to the last one.
    match target.exists() {
        true => unmount(target)?,
        false => create_target(target, is_directory)?,
    }
    let source = format!("/proc/self/fd/{}", found.as_raw_fd());
    rustix::mount::mount_bind(source, target)?;
    Ok(target.to_owned())
}

/// Opens a path beneath the volume, and creates missing directories on the way.
fn open_beneath(volume: &Path, sub_path: &Path) -> io::Result<OwnedFd> {
    let root = open(
        volume,
        OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC,
        Mode::empty(),
    )?;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    match openat2(&root, sub_path, flags, Mode::empty(), resolve) {
        Err(Errno::NOENT) => create_beneath(root, sub_path),
        found => Ok(found?),
    }
}

/// Creates the directories of a path one by one, each opened without following links.
fn create_beneath(root: OwnedFd, sub_path: &Path) -> io::Result<OwnedFd> {
    let mode = Mode::from_raw_mode(fstat(&root)?.st_mode & 0o777);
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut current = root;
    for part in sub_path.components() {
        match mkdirat(current.as_fd(), part.as_os_str(), mode) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
        current = openat(current.as_fd(), part.as_os_str(), flags, Mode::empty())?;
    }
    Ok(current)
}

fn create_target(target: &Path, is_directory: bool) -> io::Result<()> {
    if is_directory {
        return std::fs::create_dir_all(target);
    }
    std::fs::create_dir_all(target.parent().unwrap_or(Path::new("/")))?;
    std::fs::write(target, b"")
}

/// Unmounts a target of a previous container; one that nothing is mounted on is left.
fn unmount(target: &Path) -> io::Result<()> {
    match rustix::mount::unmount(target, rustix::mount::UnmountFlags::DETACH) {
        Err(Errno::INVAL) | Ok(()) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_out_of_the_volume_is_an_error() {
        let volume = tempfile::tempdir().unwrap();
        let path = volume.path();
        std::os::unix::fs::symlink("/etc", path.join("absolute")).unwrap();
        std::os::unix::fs::symlink("../..", path.join("up")).unwrap();
        std::fs::create_dir(path.join("inside")).unwrap();
        std::os::unix::fs::symlink("inside", path.join("link")).unwrap();
        for outside in ["absolute", "absolute/passwd", "up", "absolute/new"] {
            assert!(open_beneath(path, Path::new(outside)).is_err(), "{outside}");
        }
        for inside in ["inside", "link", "inside/new/directory"] {
            assert!(open_beneath(path, Path::new(inside)).is_ok(), "{inside}");
        }
        assert!(path.join("inside/new/directory").is_dir());
    }
}
