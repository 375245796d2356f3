//! [`DynamicFiles`]: files that are read again when they change, such as a certificate and its key.

use std::fmt;
use std::fs;
use std::path::PathBuf;

use crate::Error;

/// Makes a value of the contents of the files, in their order, or returns why they cannot be used.
type Parse<T> = Box<dyn Fn(&[Vec<u8>]) -> Result<T, String> + Send + Sync>;

/// Files whose contents make one value. The owner polls them at the interval it chooses, and keeps the old value while
/// the new contents cannot be used: of a certificate and its key, one is written before the other.
pub struct DynamicFiles<T> {
    paths: Vec<PathBuf>,
    parse: Parse<T>,
    /// The contents at the last poll; `None` if the files could not be read.
    contents: Option<Vec<Vec<u8>>>,
}

impl<T> DynamicFiles<T> {
    /// Reads the files, which must be valid.
    pub fn open(
        paths: Vec<PathBuf>,
        parse: impl Fn(&[Vec<u8>]) -> Result<T, String> + Send + Sync + 'static,
    ) -> Result<(Self, T), Error> {
        let mut files = Self {
            contents: Some(Vec::new()),
            parse: Box::new(parse),
            paths,
        };
        let value = files.poll()?.ok_or_else(|| files.invalid("there is no file"))?;
        Ok((files, value))
    }

    /// The value of the files, if they have changed since the last poll. A problem is reported once.
    pub fn poll(&mut self) -> Result<Option<T>, Error> {
        let contents = match self.read() {
            Ok(contents) => contents,
            Err(error) => return self.contents.take().map_or(Ok(None), |_| Err(error)),
        };
        if self.contents.as_ref() == Some(&contents) {
            return Ok(None);
        }
        let value = (self.parse)(&contents);
        self.contents = Some(contents);
        value.map(Some).map_err(|reason| self.invalid(&reason))
    }

    fn read(&self) -> Result<Vec<Vec<u8>>, Error> {
        let read = |path: &PathBuf| fs::read(path).map_err(Error::file("read", path));
        self.paths.iter().map(read).collect()
    }

    fn invalid(&self, reason: &str) -> Error {
        Error::Invalid {
            paths: self.paths.clone(),
            reason: reason.to_owned(),
        }
    }
}

impl<T> fmt::Debug for DynamicFiles<T> {
    /// Without the contents, which may be keys.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DynamicFiles")
            .field("paths", &self.paths)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two files with a number each; the value is their sum, and the second must not be smaller.
    fn open(dir: &tempfile::TempDir) -> (DynamicFiles<i64>, i64) {
        write(dir, "a", "1");
        write(dir, "b", "2");
        let number = |bytes: &Vec<u8>| String::from_utf8_lossy(bytes).parse::<i64>().unwrap_or(-1);
        let paths = vec![dir.path().join("a"), dir.path().join("b")];
        let parse = move |contents: &[Vec<u8>]| match (number(&contents[0]), number(&contents[1])) {
            (a, b) if a <= b => Ok(a + b),
            (a, b) => Err(format!("{a} is more than {b}")),
        };
        DynamicFiles::open(paths, parse).unwrap()
    }

    fn write(dir: &tempfile::TempDir, name: &str, text: &str) {
        fs::write(dir.path().join(name), text).unwrap();
    }

    #[test]
    fn a_changed_file_makes_a_new_value() {
        let dir = tempfile::tempdir().unwrap();
        let (mut files, value) = open(&dir);
        assert_eq!((value, files.poll().unwrap()), (3, None));
        write(&dir, "b", "9");
        assert_eq!(files.poll().unwrap(), Some(10));
        assert_eq!(files.poll().unwrap(), None);
    }

    #[test]
    fn half_a_change_is_an_error_once_and_the_rest_completes_it() {
        let dir = tempfile::tempdir().unwrap();
        let (mut files, _) = open(&dir);
        write(&dir, "a", "7");
        let error = files.poll().unwrap_err().to_string();
        assert!(error.ends_with("7 is more than 2"), "{error}");
        assert_eq!(files.poll().unwrap(), None);
        write(&dir, "b", "8");
        assert_eq!(files.poll().unwrap(), Some(15));
    }

    #[test]
    fn a_missing_file_is_an_error_once_and_its_return_a_new_value() {
        let dir = tempfile::tempdir().unwrap();
        let (mut files, _) = open(&dir);
        fs::remove_file(dir.path().join("b")).unwrap();
        assert!(files.poll().is_err());
        assert_eq!(files.poll().unwrap(), None);
        write(&dir, "b", "2");
        assert_eq!(files.poll().unwrap(), Some(3));
    }
}
