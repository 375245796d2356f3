//! What lies too deep to be kept: passed over with a stack of its own rather than the thread's.

use setpoint_schema::Tree;

use super::error::Error;
use super::parse::Parser;

/// What is deeper than this is refused even where it is dropped.
const MAX_DROPPED_DEPTH: usize = 10_000;

impl Parser<'_> {
    /// Passes over a list or a map that is too deep to be kept. `open` has what each of them is closed by.
    pub(super) fn pass_over(&mut self, depth: usize) -> Result<(), Error> {
        self.is_cut = true;
        let mut open = Vec::new();
        loop {
            match self.peek().ok_or(Error::End)? {
                opening @ (b'{' | b'[') => {
                    if depth + open.len() > MAX_DROPPED_DEPTH {
                        return Err(Error::Depth);
                    }
                    self.at += 1;
                    open.push(if opening == b'{' { b'}' } else { b']' });
                    if self.peek().ok_or(Error::End)? != open[open.len() - 1] {
                        self.pass_over_key(&open)?;
                        continue;
                    }
                }
                _ => self.value(depth, &mut Tree::Null)?,
            }
            if self.pass_over_ends(&mut open)? {
                return Ok(());
            }
            self.pass_over_key(&open)?;
        }
    }

    /// Passes over a key, if the innermost that is open is a map.
    fn pass_over_key(&mut self, open: &[u8]) -> Result<(), Error> {
        match open.last() {
            Some(b'}') => self.key().map(drop),
            _ => Ok(()),
        }
    }

    /// Passes over whatever closes here, and the comma behind it. Whether nothing is open any more.
    fn pass_over_ends(&mut self, open: &mut Vec<u8>) -> Result<bool, Error> {
        while let Some(end) = open.last() {
            let place = match end {
                b'}' => "after object key:value pair",
                _ => "after array element",
            };
            match self.peek().ok_or(Error::End)? {
                b',' => {
                    self.at += 1;
                    return Ok(false);
                }
                byte if byte == *end => self.at += 1,
                byte => return Err(Error::Byte { byte, place }),
            }
            open.pop();
        }
        Ok(true)
    }
}
