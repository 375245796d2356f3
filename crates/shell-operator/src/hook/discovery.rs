//! Discovery of hooks: the executable files below a directory.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::Error;

/// Files that are never hooks: configuration and text beside the hooks.
const SKIPPED_EXTENSIONS: &[&str] = &["yaml", "json", "md", "txt"];

/// The executable files below a directory, sorted by path. Hidden files and folders and folders with the name `lib` are
/// skipped.
pub fn discover(directory: &Path) -> Result<Vec<PathBuf>, Error> {
    let mut hooks = Vec::new();
    visit(directory, &mut hooks)?;
    hooks.sort_by(|one, other| one.as_os_str().cmp(other.as_os_str()));
    Ok(hooks)
}

fn visit(directory: &Path, hooks: &mut Vec<PathBuf>) -> Result<(), Error> {
    let failed = |source| Error::Directory {
        path: directory.to_owned(),
        source,
    };
    for entry in fs::read_dir(directory).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let metadata = fs::metadata(&path).map_err(failed)?;
        if metadata.is_dir() {
            if !name.starts_with('.') && name != "lib" {
                visit(&path, hooks)?;
            }
            continue;
        }
        let extension = path.extension().and_then(|extension| extension.to_str());
        if name.starts_with('.') || extension.is_some_and(|extension| SKIPPED_EXTENSIONS.contains(&extension))
        {
            continue;
        }
        match metadata.permissions().mode() & 0o111 == 0 {
            true => tracing::warn!(path = %path.display(), "file is skipped: no executable permissions"),
            false => hooks.push(path.clone()),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn executable_files_are_found_in_order() {
        let directory = tempfile::tempdir().unwrap();
        let file = |path: &str, mode: u32| {
            let path = directory.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, "").unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        };
        for path in [
            "b.sh",
            "a/z.py",
            "a/lib/x.sh",
            "lib/y.sh",
            ".hidden",
            ".git/hook",
            "values.yaml",
        ] {
            file(path, 0o755);
        }
        file("plain.sh", 0o644);
        let found = discover(directory.path()).unwrap();
        let names: Vec<_> = found
            .iter()
            .map(|path| path.strip_prefix(directory.path()).unwrap().to_str().unwrap())
            .collect();
        assert_eq!(names, ["a/z.py", "b.sh"]);
    }
}
