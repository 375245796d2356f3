//! Files of a volume that change all at once.
//!
//! The files are in a directory of their own, whose name begins with two dots; `..data` is a link to it, and each visible
//! name a link through `..data`. An update writes a new directory and replaces `..data` by a rename, so a reader sees
//! all old or all new files. Example: `tls.crt -> ..data/tls.crt`, `..data -> ..2026_01_02_03_04_05.678`.

use std::collections::BTreeSet;
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::{Component, Path, PathBuf};

use jiff::Timestamp;

use super::payload::{Payload, ProjectedFile};

const DATA: &str = "..data";
const NEW_DATA: &str = "..data_tmp";

/// Makes the volume have exactly these files. Returns whether it changed.
pub(super) fn write(volume: &Path, files: &Payload, now: Timestamp) -> io::Result<bool> {
    files.keys().try_for_each(|path| check_path(path))?;
    let old = fs::read_link(volume.join(DATA)).ok();
    if let Some(old) = &old
        && is_equal(&volume.join(old), files)?
    {
        return Ok(false);
    }
    let name = format!(
        "..{}.{:09}",
        now.strftime("%Y_%m_%d_%H_%M_%S"),
        now.subsec_nanosecond()
    );
    let directory = volume.join(&name);
    fs::create_dir(&directory)?;
    if let Err(error) = write_files(&directory, files) {
        // What was written is not left in the volume: each attempt would add to it.
        fs::remove_dir_all(&directory)?;
        return Err(error);
    }
    replace_link(volume, &name)?;
    link_names(volume, files)?;
    if let Some(old) = old {
        fs::remove_dir_all(volume.join(old)).or_else(ignore_absent)?;
    }
    Ok(true)
}

fn write_files(directory: &Path, files: &Payload) -> io::Result<()> {
    fs::set_permissions(directory, Permissions::from_mode(0o755))?;
    files
        .iter()
        .try_for_each(|(path, file)| write_file(&directory.join(path), file))
}

/// A path of a file in a volume: relative, without `..`, and no name that this module uses itself.
fn check_path(path: &str) -> io::Result<()> {
    let invalid = |reason: &str| Err(io::Error::other(format!("invalid path: {reason}: {path}")));
    if path.is_empty() {
        return invalid("must not be empty");
    }
    if Path::new(path).is_absolute() {
        return invalid("must be relative path");
    }
    if path.split('/').any(|part| part == "..") {
        return invalid("must not contain '..'");
    }
    if path.starts_with("..") {
        return invalid("must not start with '..'");
    }
    Ok(())
}

fn write_file(path: &Path, file: &ProjectedFile) -> io::Result<()> {
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent)?;
    }
    fs::write(path, &file.data)?;
    fs::set_permissions(path, Permissions::from_mode(file.mode))?;
    match file.owner.and_then(|owner| u32::try_from(owner).ok()) {
        Some(owner) => chown(path, Some(owner), None),
        None => Ok(()),
    }
}

fn replace_link(volume: &Path, name: &str) -> io::Result<()> {
    let temporary = volume.join(NEW_DATA);
    fs::remove_file(&temporary).or_else(ignore_absent)?;
    symlink(name, &temporary)?;
    fs::rename(temporary, volume.join(DATA))
}

/// Links the visible names, and removes those that are no longer there.
fn link_names(volume: &Path, files: &Payload) -> io::Result<()> {
    let names: BTreeSet<_> = files.keys().filter_map(|path| path.split('/').next()).collect();
    for name in &names {
        match symlink(Path::new(DATA).join(name), volume.join(name)) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            linked => linked?,
        }
    }
    for entry in fs::read_dir(volume)? {
        let entry = entry?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let is_ours = entry.file_type()?.is_symlink() && !name.starts_with("..");
        if is_ours && !names.contains(&*name) {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

/// Whether the directory has exactly these files with these contents.
fn is_equal(directory: &Path, files: &Payload) -> io::Result<bool> {
    let mut found = BTreeSet::new();
    collect(directory, &PathBuf::new(), &mut found).or_else(ignore_absent)?;
    let expected: BTreeSet<_> = files.keys().map(|path| normal(path)).collect();
    if found != expected {
        return Ok(false);
    }
    for (path, file) in files {
        if fs::read(directory.join(path))? != file.data {
            return Ok(false);
        }
    }
    Ok(true)
}

fn normal(path: &str) -> PathBuf {
    let components = Path::new(path).components();
    components
        .filter(|part| matches!(part, Component::Normal(_)))
        .collect()
}

fn collect(root: &Path, below: &Path, found: &mut BTreeSet<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(root.join(below))? {
        let entry = entry?;
        let path = below.join(entry.file_name());
        match entry.file_type()?.is_dir() {
            true => collect(root, &path, found)?,
            false => {
                found.insert(path);
            }
        }
    }
    Ok(())
}

fn ignore_absent(error: io::Error) -> io::Result<()> {
    match error.kind() {
        io::ErrorKind::NotFound => Ok(()),
        _ => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn payload(files: &[(&str, &str)]) -> Payload {
        let file = |(path, text): &(&str, &str)| {
            (
                (*path).to_owned(),
                ProjectedFile::new(text.as_bytes().to_vec(), 0o640),
            )
        };
        files.iter().map(file).collect()
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn files_are_replaced_all_at_once() {
        let volume = tempfile::tempdir().unwrap();
        let path = volume.path();
        assert!(write(path, &payload(&[("a", "1"), ("d/b", "2")]), at(1)).unwrap());
        assert_eq!(fs::read_to_string(path.join("d/b")).unwrap(), "2");
        assert_eq!(fs::read_link(path.join("a")).unwrap(), Path::new("..data/a"));
        assert_eq!(
            fs::metadata(path.join("a")).unwrap().permissions().mode() & 0o777,
            0o640
        );
        let first = fs::read_link(path.join(DATA)).unwrap();
        assert!(write(path, &payload(&[("a", "3")]), at(2)).unwrap());
        assert_eq!(fs::read_to_string(path.join("a")).unwrap(), "3");
        assert!(!path.join("d").exists());
        assert!(!path.join(first).exists());
    }

    #[test]
    fn equal_files_are_left_alone() {
        let volume = tempfile::tempdir().unwrap();
        let files = payload(&[("a", "1"), ("d/b", "2")]);
        assert!(write(volume.path(), &files, at(1)).unwrap());
        assert!(!write(volume.path(), &files, at(2)).unwrap());
        assert!(write(volume.path(), &payload(&[]), at(3)).unwrap());
        assert!(!write(volume.path(), &payload(&[]), at(4)).unwrap());
    }

    #[test]
    fn nothing_is_left_of_files_that_cannot_be_written() {
        let volume = tempfile::tempdir().unwrap();
        let files = payload(&[("a", "1"), ("a/b", "2")]);
        assert!(write(volume.path(), &files, at(1)).is_err());
        assert_eq!(fs::read_dir(volume.path()).unwrap().count(), 0);
    }

    #[track_caller]
    fn check_invalid(path: &str, error: &str) {
        let volume = tempfile::tempdir().unwrap();
        let written = write(volume.path(), &payload(&[(path, "")]), at(1));
        assert_eq!(
            written.unwrap_err().to_string(),
            format!("invalid path: {error}: {path}")
        );
    }

    #[test]
    fn paths_that_leave_the_volume_are_errors() {
        check_invalid("../a", "must not contain '..'");
        check_invalid("a/../b", "must not contain '..'");
        check_invalid("/a", "must be relative path");
        check_invalid("..a", "must not start with '..'");
        check_invalid("", "must not be empty");
    }
}
