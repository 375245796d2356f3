//! Reusable buffer, aligned as `O_DIRECT` writes require.

use std::fmt;

/// Direct writes need addresses, offsets and lengths that are multiples of this. It is also the unit in
/// which frames are laid out, so acknowledged bytes are never written again.
pub(crate) const BLOCK_BYTES: usize = 4096;

/// Buffers above this size are freed after use.
const KEPT_BYTES: usize = 1 << 20;

/// Aligned, growable bytes. `bytes[..start]` is filler that puts the rest on an aligned address. The vector itself
/// never grows, because that would move its bytes to any address; [`Block::put`] moves them to an aligned one.
#[derive(Default)]
pub(crate) struct Block {
    bytes: Vec<u8>,
    start: usize,
}

impl Block {
    /// Clears the buffer and reserves `capacity` bytes and their padding.
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

    /// Appends. Capacity for the padding is always reserved.
    pub(crate) fn put(&mut self, bytes: &[u8]) {
        let length = (self.bytes.len() - self.start + bytes.len()).next_multiple_of(BLOCK_BYTES);
        if self.start + length > self.bytes.capacity() {
            self.grow(length);
        }
        self.bytes.extend_from_slice(bytes);
    }

    /// Appends zeros up to the next block boundary.
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

    /// Moves to an allocation of twice the `length`, so that many small puts cost few moves.
    #[cold]
    fn grow(&mut self, length: usize) {
        let mut larger = Block::default();
        larger.start_with(2 * length);
        larger.bytes.extend_from_slice(self.as_slice());
        *self = larger;
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
    fn a_block_that_grows_stays_aligned_and_complete() {
        let mut block = Block::default();
        for n in 0..10_000_u32 {
            block.put(&n.to_le_bytes());
        }
        block.pad();
        assert_eq!(block.as_slice().as_ptr() as usize % BLOCK_BYTES, 0);
        assert_eq!(block.as_slice().len(), 40_960);
        for (n, bytes) in (0..10_000_u32).zip(block.as_slice().chunks(4)) {
            assert_eq!(bytes, n.to_le_bytes());
        }
    }

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
