//! A reusable buffer whose bytes start at an address that direct writes accept.

use std::fmt;

/// Direct writes need addresses, offsets and lengths that are multiples of this. It is also the unit in
/// which frames are laid out, so acknowledged bytes are never written again.
pub(crate) const BLOCK_BYTES: usize = 4096;

/// Buffers above this size are given back after use.
const KEPT_BYTES: usize = 1 << 20;

/// Bytes under construction. `bytes[..start]` is filler that puts the rest on an aligned address; the
/// buffer is never grown after [`Block::start_with`], because that would move it.
#[derive(Default)]
pub(crate) struct Block {
    bytes: Vec<u8>,
    start: usize,
}

impl Block {
    /// Empties the buffer and makes room for `capacity` bytes and their padding.
    pub(crate) fn start_with(&mut self, capacity: usize) {
        let needed = capacity.next_multiple_of(BLOCK_BYTES) + BLOCK_BYTES;
        let wasteful = self.bytes.capacity() > KEPT_BYTES && needed < KEPT_BYTES;
        if self.bytes.capacity() < needed || wasteful {
            self.bytes = Vec::with_capacity(needed);
        }
        self.bytes.clear();
        self.start = self.bytes.as_ptr().align_offset(BLOCK_BYTES);
        self.bytes.resize(self.start, 0);
    }

    pub(crate) fn put(&mut self, bytes: &[u8]) {
        debug_assert!(self.bytes.len() + bytes.len() <= self.bytes.capacity());
        self.bytes.extend_from_slice(bytes);
    }

    /// Fills up to the next block boundary with zeros.
    pub(crate) fn pad(&mut self) {
        let length = (self.bytes.len() - self.start).next_multiple_of(BLOCK_BYTES);
        self.bytes.resize(self.start + length, 0);
    }

    pub(crate) fn as_slice(&self) -> &[u8] {
        &self.bytes[self.start..]
    }

    pub(crate) fn as_mut_slice(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..]
    }
}

impl fmt::Debug for Block {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Block")
            .field("bytes", &self.as_slice().len())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_start_on_a_block_address_and_end_on_a_block_length() {
        let mut block = Block::default();
        for size in [1, 4095, 4096, 4097, 100_000, 3] {
            block.start_with(size);
            block.put(&vec![7; size]);
            block.pad();
            assert_eq!(block.as_slice().as_ptr() as usize % BLOCK_BYTES, 0);
            assert_eq!(block.as_slice().len(), size.next_multiple_of(BLOCK_BYTES));
            assert_eq!(block.as_slice()[..size], vec![7; size]);
        }
    }
}
