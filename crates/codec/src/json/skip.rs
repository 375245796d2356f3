//! Skipping of containers that are nested too deep to keep, with a heap stack instead of the thread's.

use setpoint_schema::Tree;

use super::error::Error;
use super::parse::Parser;

/// Nesting beyond this depth is rejected even in fields that are dropped.
const MAX_DROPPED_DEPTH: usize = 10_000;

impl Parser<'_> {
    /// Skips a list or a map that is too deep to keep. `open` has the closing bracket of each open container.
    pub(super) fn skip_container(&mut self, depth: usize) -> Result<(), Error> {
        self.is_truncated = true;
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
                        self.skip_key(&open)?;
                        continue;
                    }
                }
                _ => self.value(depth, &mut Tree::Null)?,
            }
            if self.skip_closings(&mut open)? {
                return Ok(());
            }
            self.skip_key(&open)?;
        }
    }

    /// Skips a key, if the innermost open container is a map.
    fn skip_key(&mut self, open: &[u8]) -> Result<(), Error> {
        match open.last() {
            Some(b'}') => self.key().map(drop),
            _ => Ok(()),
        }
    }

    /// Skips closing brackets and the comma after them. Returns whether no container is open any more.
    fn skip_closings(&mut self, open: &mut Vec<u8>) -> Result<bool, Error> {
        while let Some(end) = open.last() {
            let context = match end {
                b'}' => "after object key:value pair",
                _ => "after array element",
            };
            match self.peek().ok_or(Error::End)? {
                b',' => {
                    self.at += 1;
                    return Ok(false);
                }
                byte if byte == *end => self.at += 1,
                byte => return Err(Error::Byte { byte, context }),
            }
            open.pop();
        }
        Ok(true)
    }
}
