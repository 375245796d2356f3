//! The server's own key on disk.

use std::fs;
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use super::{Error, SigningKey};

/// The key in this file; if there is no file, a new key is made and kept there, for the owner's eyes only.
pub fn open(path: &Path) -> Result<SigningKey, Error> {
    match fs::read_to_string(path) {
        Ok(text) => SigningKey::from_pem(&text),
        Err(error) if error.kind() == ErrorKind::NotFound => make(path),
        Err(source) => Err(failed(path, source)),
    }
}

/// The file appears whole or not at all: tokens signed by a key that is then lost would be worthless.
fn make(path: &Path) -> Result<SigningKey, Error> {
    let text = SigningKey::generate()?;
    let fresh = path.with_extension("new");
    let write = || {
        let mut options = fs::OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(0o600);
        let mut file = options.open(&fresh)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&fresh, path)
    };
    write().map_err(|source| failed(path, source))?;
    SigningKey::from_pem(&text)
}

fn failed(path: &Path, source: std::io::Error) -> Error {
    Error::File {
        path: path.display().to_string(),
        source,
    }
}
