//! Reading and writing of kubeconfig files.

use std::ffi::OsStr;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use setpoint_codec::{from_tree, to_tree, yaml};

use super::{Error, Kubeconfig, User};

impl Kubeconfig {
    /// The files that kubectl would read: those in `$KUBECONFIG`, else the one in the home directory.
    pub fn paths(kubeconfig: Option<&OsStr>, home: Option<&Path>) -> Vec<PathBuf> {
        match kubeconfig {
            Some(list) if !list.is_empty() => std::env::split_paths(list).collect(),
            _ => home.map(|home| home.join(".kube/config")).into_iter().collect(),
        }
    }

    /// All these files merged: of entries with the same name, the one in the earlier file wins. Missing files are skipped.
    pub fn load(paths: &[PathBuf]) -> Result<Self, Error> {
        let mut whole = Self::default();
        for path in paths.iter().rev() {
            match Self::read(path) {
                Ok(file) => whole = whole.merge(file),
                Err(Error::Read { source, .. }) if source.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        Ok(whole)
    }

    /// One file; the paths in it are relative to its directory.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let text = fs::read_to_string(path).map_err(|source| Error::Read {
            path: path.to_owned(),
            source,
        })?;
        let mut config = Self::parse(&text)?;
        config.resolve(path.parent().unwrap_or(Path::new("")));
        Ok(config)
    }

    /// Parses the text of a file. Relative paths stay as they are.
    pub fn parse(text: &str) -> Result<Self, Error> {
        if text.trim().is_empty() {
            return Ok(Self::default());
        }
        let tree = yaml::parse(text.as_bytes()).map_err(|error| Error::Parse(error.to_string()))?;
        from_tree(&tree).map_err(|error| Error::Parse(error.to_string()))
    }

    /// YAML with every value on one line, certificates too, so that line-based tools can extract them.
    pub fn to_yaml(&self) -> Result<String, Error> {
        let tree = to_tree(self).map_err(|error| Error::Parse(error.to_string()))?;
        Ok(yaml::write(&tree))
    }

    /// Replaces the file atomically. It contains secrets, so only its owner may read it.
    pub fn write(&self, path: &Path) -> Result<(), Error> {
        let text = self.to_yaml()?;
        replace_file(path, text.as_bytes()).map_err(|source| Error::Write {
            path: path.to_owned(),
            source,
        })
    }

    /// Merges this config into the file, if it exists, and writes the result.
    pub fn merge_into(self, path: &Path) -> Result<(), Error> {
        let before = match fs::read_to_string(path) {
            Ok(text) => Self::parse(&text)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Self::default(),
            Err(source) => {
                let path = path.to_owned();
                return Err(Error::Read { path, source });
            }
        };
        before.merge(self).write(path)
    }

    fn resolve(&mut self, directory: &Path) {
        let clusters = self
            .clusters
            .iter_mut()
            .map(|entry| &mut entry.cluster.certificate_authority);
        clusters.flatten().for_each(|path| *path = directory.join(&path));
        for user in self.users.iter_mut().map(|entry| &mut entry.user) {
            let files = [
                &mut user.client_certificate,
                &mut user.client_key,
                &mut user.token_file,
            ];
            files
                .into_iter()
                .flatten()
                .for_each(|path| *path = directory.join(&path));
            resolve_plugin(user, directory);
        }
    }
}

/// A command with a slash is a path, relative to the file; one without is looked up in `PATH`.
fn resolve_plugin(user: &mut User, directory: &Path) {
    let plugin = user
        .other
        .get_mut("exec")
        .and_then(|exec| exec.get_mut("command"));
    let Some(command) = plugin else {
        return;
    };
    if let Some(path) = command.as_str().filter(|path| path.contains('/')) {
        *command = directory.join(path).to_string_lossy().into_owned().into();
    }
}

fn replace_file(path: &Path, bytes: &[u8]) -> io::Result<()> {
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory)?;
    }
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{}.new", std::process::id()));
    let fresh = path.with_file_name(name);
    let mut file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&fresh)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&fresh, path)
}
