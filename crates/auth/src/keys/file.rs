//! The server's signing key on disk.

use std::fs;
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use super::{Error, SigningKey};

/// Loads the key from a file; if it does not exist, generates a key and writes it with mode 0600.
pub fn load_or_generate(path: &Path) -> Result<SigningKey, Error> {
    match fs::read_to_string(path) {
        Ok(text) => SigningKey::from_pem(&text),
        Err(error) if error.kind() == ErrorKind::NotFound => generate(path),
        Err(source) => Err(file_error(path, source)),
    }
}

/// Writes the file atomically: tokens signed by a key that is then lost would be invalid.
fn generate(path: &Path) -> Result<SigningKey, Error> {
    let text = SigningKey::generate()?;
    let temporary = path.with_extension("new");
    let write = || {
        let mut options = fs::OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(0o600);
        let mut file = options.open(&temporary)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&temporary, path)
    };
    write().map_err(|source| file_error(path, source))?;
    SigningKey::from_pem(&text)
}

fn file_error(path: &Path, source: std::io::Error) -> Error {
    Error::File {
        path: path.display().to_string(),
        source,
    }
}
