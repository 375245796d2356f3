//! Removal of a pod's directory: first what is mounted below it, then the files.

use std::io;
use std::path::{Path, PathBuf};

use rustix::mount::UnmountFlags;

const MOUNTS: &str = "/proc/self/mountinfo";

/// Unmounts everything below the directory and removes it. A directory that is gone is no error. Nothing is removed
/// while something is still mounted below it: its files may be those of the host.
pub(super) fn remove(directory: &Path) -> io::Result<()> {
    if !directory.exists() {
        return Ok(());
    }
    let mut mounts = mounts_below(&std::fs::read_to_string(MOUNTS)?, directory);
    mounts.sort();
    for mount in mounts.iter().rev() {
        rustix::mount::unmount(mount, UnmountFlags::DETACH)?;
    }
    let left = mounts_below(&std::fs::read_to_string(MOUNTS)?, directory);
    match left.first() {
        Some(mount) => Err(io::Error::other(format!("{} is still mounted", mount.display()))),
        None => std::fs::remove_dir_all(directory),
    }
}

/// The mount points below a directory; their paths are the fifth field, with spaces and the like in octal.
fn mounts_below(mountinfo: &str, directory: &Path) -> Vec<PathBuf> {
    let paths = mountinfo
        .lines()
        .filter_map(|line| line.split(' ').nth(4))
        .map(unescape);
    paths.filter(|path| path.starts_with(directory)).collect()
}

fn unescape(path: &str) -> PathBuf {
    let escapes = [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")];
    let replace = |path: String, (escape, text): &(&str, &str)| path.replace(escape, text);
    PathBuf::from(escapes.iter().fold(path.to_owned(), replace))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mount_points_below_a_directory_are_found() {
        let mountinfo = "1 0 8:1 / / rw - ext4 /dev/a rw\n\
            2 1 0:5 / /var/pods/1/volumes/a\\040b rw - tmpfs tmpfs rw\n\
            3 1 0:6 / /var/pods/11 rw - tmpfs tmpfs rw\n";
        let found = mounts_below(mountinfo, Path::new("/var/pods/1"));
        assert_eq!(found, [Path::new("/var/pods/1/volumes/a b")]);
    }

    #[test]
    fn a_directory_without_mounts_is_removed() {
        let directory = tempfile::tempdir().unwrap();
        let pod = directory.path().join("pod");
        std::fs::create_dir_all(pod.join("volumes/a")).unwrap();
        remove(&pod).unwrap();
        assert!(!pod.exists());
        remove(&pod).unwrap();
    }
}
