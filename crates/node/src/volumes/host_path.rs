//! Paths of the host: their type is checked, and what may be created is created.

use std::fs::{self, FileType, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Checks that the path is of this type (`HostPathType`). The empty type is not checked.
pub(super) fn check(path: &Path, kind: &str) -> io::Result<PathBuf> {
    match kind {
        "DirectoryOrCreate" if !path.exists() => {
            fs::DirBuilder::new().recursive(true).mode(0o755).create(path)?;
        }
        "FileOrCreate" if !path.exists() => {
            fs::write(path, b"")?;
            fs::set_permissions(path, Permissions::from_mode(0o644))?;
        }
        "" => {}
        "DirectoryOrCreate" | "Directory" => expect(path, FileType::is_dir, "directory")?,
        "FileOrCreate" | "File" => expect(path, FileType::is_file, "file")?,
        "Socket" => expect(path, FileType::is_socket, "socket file")?,
        "CharDevice" => expect(path, FileType::is_char_device, "character device")?,
        "BlockDevice" => expect(path, FileType::is_block_device, "block device")?,
        other => return Err(io::Error::other(format!("{other} is an invalid volume type"))),
    }
    Ok(path.to_owned())
}

fn expect(path: &Path, is_type: impl Fn(&FileType) -> bool, name: &str) -> io::Result<()> {
    match fs::metadata(path).is_ok_and(|metadata| is_type(&metadata.file_type())) {
        true => Ok(()),
        false => {
            let message = format!("hostPath type check failed: {} is not a {name}", path.display());
            Err(io::Error::other(message))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_row(directory: &Path, (name, kind): (&str, &str), error: Option<&str>) {
        let path = directory.join(name);
        let expected =
            error.map(|text| format!("hostPath type check failed: {} is not a {text}", path.display()));
        assert_eq!(check(&path, kind).err().map(|error| error.to_string()), expected);
    }

    #[test]
    fn a_path_of_another_type_is_an_error() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("file"), b"").unwrap();
        fs::create_dir(directory.path().join("directory")).unwrap();
        for (row, error) in [
            (("absent", ""), None),
            (("absent", "Directory"), Some("directory")),
            (("file", "Directory"), Some("directory")),
            (("directory", "File"), Some("file")),
            (("file", "Socket"), Some("socket file")),
            (("file", "CharDevice"), Some("character device")),
            (("file", "BlockDevice"), Some("block device")),
            (("directory", "FileOrCreate"), Some("file")),
            (("new/directory", "DirectoryOrCreate"), None),
            (("new/directory", "Directory"), None),
            (("new-file", "FileOrCreate"), None),
            (("new-file", "File"), None),
        ] {
            check_row(directory.path(), row, error);
        }
        assert_eq!(
            check(Path::new("/"), "Other").unwrap_err().to_string(),
            "Other is an invalid volume type"
        );
    }
}
